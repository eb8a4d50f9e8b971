package main

// A proxy for one client: it logs what the group's requests say, and what comes back, and loses,
// delays, holds or replaces answers. Only the advertised port is changed otherwise.

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rule says what becomes of the next answers of an api; count is how many are left.
type rule struct {
	api     string
	what    string // drop_response, replace_response, delay_response
	count   int
	ms      int
	code    int16
	matches func(req kmsg.Request) bool
}

type proxy struct {
	rec      *recorder
	client   string
	upstream string
	ln       net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	connIDs  int
	ids      int
	rules    []*rule
	held     chan struct{} // closed when bytes pass; nil: they pass
	silent   bool          // nothing is logged any more
	unlogged map[string]int
}

func newProxy(rec *recorder, client, upstream string) *proxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	p := &proxy{rec: rec, client: client, upstream: upstream, ln: ln, unlogged: map[string]int{}}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) port() int32 { return int32(p.ln.Addr().(*net.TCPAddr).Port) }

func (p *proxy) addRule(r *rule, fields map[string]any) {
	p.mu.Lock()
	p.rules = append(p.rules, r)
	p.mu.Unlock()
	f := map[string]any{"what": r.what, "api": r.api, "count": r.count}
	for k, v := range fields {
		f[k] = v
	}
	p.rec.event(p.client, "fault", f)
}

func (p *proxy) take(api string, req kmsg.Request) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.count > 0 && r.api == api && (r.matches == nil || r.matches(req)) {
			r.count--
			return r
		}
	}
	return nil
}

func (p *proxy) hold() {
	p.mu.Lock()
	p.held = make(chan struct{})
	p.mu.Unlock()
	p.rec.event(p.client, "fault", map[string]any{"what": "hold_all_bytes"})
}

func (p *proxy) release() {
	p.rec.event(p.client, "fault", map[string]any{"what": "release_held_bytes"})
	p.mu.Lock()
	close(p.held)
	p.held = nil
	p.mu.Unlock()
}

func (p *proxy) wait() {
	p.mu.Lock()
	h := p.held
	p.mu.Unlock()
	if h != nil {
		<-h
	}
}

func (p *proxy) kill(log bool) {
	if log {
		p.rec.event(p.client, "fault", map[string]any{"what": "kill_connections"})
	}
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
}

func (p *proxy) stop() {
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
	p.ln.Close()
	p.kill(false)
}

type pending struct {
	id  int
	req kmsg.Request
}

func readFrame(c net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c, b)
	return b, err
}

func writeFrame(c net.Conn, b []byte) error {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	_, err := c.Write(append(out, b...))
	return err
}

func (p *proxy) serve(c net.Conn) {
	up, err := net.Dial("tcp", p.upstream)
	if err != nil {
		c.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, c, up)
	p.connIDs++
	conn := p.connIDs
	p.mu.Unlock()
	var mu sync.Mutex
	open := map[int32]pending{}
	go func() {
		defer up.Close()
		for {
			b, err := readFrame(c)
			if err != nil {
				return
			}
			p.wait()
			key, version := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
			corr := int32(binary.BigEndian.Uint32(b[4:]))
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			body := b[8:]
			n := int16(binary.BigEndian.Uint16(body))
			body = body[2:]
			if n > 0 {
				body = body[n:]
			}
			if req.IsFlexible() {
				body = body[1:]
			}
			must(req.ReadFrom(body))
			id := p.logRequest(conn, req)
			mu.Lock()
			open[corr] = pending{id, req}
			mu.Unlock()
			if writeFrame(up, b) != nil {
				return
			}
		}
	}()
	defer c.Close()
	for {
		b, err := readFrame(up)
		if err != nil {
			return
		}
		p.wait()
		corr := int32(binary.BigEndian.Uint32(b))
		mu.Lock()
		of := open[corr]
		delete(open, corr)
		mu.Unlock()
		if of.id == 0 && of.req.Key() != 3 { // neither logged nor Metadata
			if writeFrame(c, b) != nil {
				return
			}
			continue
		}
		resp := of.req.ResponseKind()
		resp.SetVersion(of.req.GetVersion())
		body := b[4:]
		flexibleHeader := resp.IsFlexible() && of.req.Key() != 18
		if flexibleHeader {
			body = body[1:]
		}
		must(resp.ReadFrom(body))
		changed := p.rewrite(resp)
		api := kmsg.NameForKey(of.req.Key())
		r := p.take(api, of.req)
		if r != nil && r.what == "replace_response" {
			resp = failed(of.req, r.code)
			changed = true
		}
		if changed {
			b = binary.BigEndian.AppendUint32(nil, uint32(corr))
			if flexibleHeader {
				b = append(b, 0)
			}
			b = resp.AppendTo(b)
		}
		if r != nil && r.what == "delay_response" {
			p.rec.event(p.client, "response_held", map[string]any{"id": of.id, "conn": conn, "api": api, "hold_ms": r.ms})
			time.Sleep(time.Duration(r.ms) * time.Millisecond)
		}
		lost := r != nil && r.what == "drop_response"
		p.logResponse(conn, of, resp, !lost)
		if lost {
			return
		}
		if writeFrame(c, b) != nil {
			return
		}
	}
}

// rewrite has the client come back through this proxy.
func (p *proxy) rewrite(resp kmsg.Response) bool {
	switch t := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range t.Brokers {
			t.Brokers[i].Port = p.port()
		}
		for _, topic := range t.Topics {
			if topic.Topic != nil {
				p.rec.nameTopic(topic.TopicID, *topic.Topic)
			}
		}
		return true
	case *kmsg.FindCoordinatorResponse:
		t.Port = p.port()
		for i := range t.Coordinators {
			t.Coordinators[i].Port = p.port()
		}
		return true
	}
	return false
}

// failed is an answer with nothing but an error.
func failed(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	switch t := resp.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		t.Default()
		t.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		t.ErrorCode = code
	case *kmsg.JoinGroupResponse:
		t.Default()
		t.ErrorCode = code
		t.Generation = -1
	case *kmsg.OffsetCommitResponse:
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = partition.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			t.Topics = append(t.Topics, rt)
		}
	case *kmsg.OffsetFetchResponse:
		for _, group := range req.(*kmsg.OffsetFetchRequest).Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.ErrorCode = group.Group, code
			t.Groups = append(t.Groups, rg)
		}
	default:
		panic("no failed answer for " + kmsg.NameForKey(req.Key()))
	}
	return resp
}
