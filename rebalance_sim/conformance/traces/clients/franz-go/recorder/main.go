// Records what franz-go does against a real broker, in the format of conformance/traces/clients.
//
//	go run . -bootstrap 127.0.0.1:9092 -out .. [scenario...]
//
// The broker has sessions of 6 s, heartbeats every second, and an assignment interval of 0.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const release = "1.22.3"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type recorder struct {
	mu      sync.Mutex
	begin   time.Time
	events  []body
	name    string
	about   string
	suffix  string
	topics  map[[16]byte]string
	members map[string]string
	counts  map[string]int
	configs map[string]body
	addr    string
	clients []*client
}

func (r *recorder) event(client, kind string, fields body) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := body{"at_ms": time.Since(r.begin).Milliseconds(), "client": client, "kind": kind}
	for k, v := range fields {
		e[k] = v
	}
	r.events = append(r.events, e)
}

// plain takes off what makes names of topics unique on the broker.
func (r *recorder) plain(name string) string { return strings.ReplaceAll(name, r.suffix, "") }

func (r *recorder) nameTopic(id [16]byte, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topics[id] = r.plain(name)
}

func (r *recorder) topic(id [16]byte, name string) string {
	if name != "" {
		return r.plain(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topics[id]
}

// member gives the ids that a client uses numbers: A#1, A#2.
func (r *recorder) member(client, id string) string {
	if id == "" {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.members[id]; ok {
		return known
	}
	r.counts[client]++
	r.members[id] = fmt.Sprintf("%s#%d", client, r.counts[client])
	return r.members[id]
}

// other is the number of a member that another client may be about to learn of as its own.
func (r *recorder) other(client, id string) string {
	for range 100 {
		r.mu.Lock()
		known, ok := r.members[id]
		r.mu.Unlock()
		if ok {
			return known
		}
		time.Sleep(5 * time.Millisecond)
	}
	return r.member(client, id)
}

type client struct {
	*proxy
	cl       *kgo.Client
	name     string
	mu       sync.Mutex
	assigned map[string]map[int32]bool
	slow     map[string]time.Duration
	commits  bool
	away     chan struct{} // closed when the application comes back; nil: it polls
	isAway   chan struct{}
	done     chan struct{}
	stopped  chan struct{}
	gone     bool // it is as if it were
}

func partitions(r *recorder, m map[string][]int32) body {
	by := body{}
	for topic, ps := range m {
		by[r.plain(topic)] = sorted(ps)
	}
	return by
}

func (c *client) callback(name string, gives bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, cl *kgo.Client, m map[string][]int32) {
		c.mu.Lock()
		gone := c.gone
		c.mu.Unlock()
		if gone {
			return
		}
		c.rec.event(c.name, "callback_begin", body{"callback": name, "partitions": partitions(c.rec, m)})
		c.mu.Lock()
		slow, commits := c.slow[name], c.commits
		c.mu.Unlock()
		time.Sleep(slow)
		if commits && name == "OnPartitionsRevoked" {
			c.rec.event(c.name, "action_begin", body{"action": "CommitUncommittedOffsets"})
			cl.CommitUncommittedOffsets(ctx)
			c.rec.event(c.name, "action_end", body{"action": "CommitUncommittedOffsets"})
		}
		c.mu.Lock()
		for topic, ps := range m {
			for _, p := range ps {
				if gives {
					if c.assigned[topic] == nil {
						c.assigned[topic] = map[int32]bool{}
					}
					c.assigned[topic][p] = true
				} else {
					delete(c.assigned[topic], p)
				}
			}
		}
		held := map[string][]int32{}
		for topic, ps := range c.assigned {
			for p := range ps {
				held[topic] = append(held[topic], p)
			}
		}
		c.mu.Unlock()
		c.rec.event(c.name, "callback_end", body{"callback": name, "assignment": partitions(c.rec, held), "throws": false})
	}
}

// start begins a client that polls; settings are those of the trace.
func (r *recorder) start(name string, settings body, opts ...kgo.Opt) *client {
	all := body{"auto.commit.interval.ms": "5000", "max.poll.interval.ms": "60000", "auto.offset.reset": "earliest"}
	for k, v := range settings {
		all[k] = v
	}
	key := name
	if _, ok := r.configs[name]; ok {
		key = name + " (process 2)"
	}
	r.configs[key] = all
	c := &client{proxy: newProxy(r, name, r.addr), name: name, assigned: map[string]map[int32]bool{}, slow: map[string]time.Duration{},
		done: make(chan struct{}), stopped: make(chan struct{})}
	for _, other := range r.clients { // ids go on over the processes of a client
		if other.name == name {
			c.ids, c.connIDs = other.ids, other.connIDs
		}
	}
	r.clients = append(r.clients, c)
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(c.addr()), kgo.ConsumerGroup("group" + r.suffix), kgo.ConsumeTopics("orders" + r.suffix),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(c.callback("OnPartitionsAssigned", true)),
		kgo.OnPartitionsRevoked(c.callback("OnPartitionsRevoked", false)),
		kgo.OnPartitionsLost(c.callback("OnPartitionsLost", false)),
	}, opts...)
	if all["group.protocol"] == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if id, ok := all["group.instance.id"]; ok {
		opts = append(opts, kgo.InstanceID(id.(string)))
	}
	r.event(name, "action", body{"action": "create"})
	r.event(name, "action", body{"action": "subscribe", "topics": []string{"orders"}})
	cl, err := kgo.NewClient(opts...)
	must(err)
	c.cl = cl
	go c.poll()
	return c
}

func (c *client) poll() {
	defer close(c.stopped)
	for {
		select {
		case <-c.done:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := c.cl.PollFetches(ctx)
		cancel()
		offsets := body{}
		count := 0
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 {
				topic := c.rec.plain(p.Topic)
				if offsets[topic] == nil {
					offsets[topic] = body{}
				}
				offsets[topic].(body)[fmt.Sprint(p.Partition)] = []int64{p.Records[0].Offset, p.Records[n-1].Offset}
				count += n
			}
		})
		fetches.EachError(func(topic string, p int32, err error) {
			if err != context.DeadlineExceeded {
				c.rec.event(c.name, "exception", body{"message": err.Error()})
			}
		})
		if count > 0 {
			c.rec.event(c.name, "records", body{"count": count, "offsets": offsets})
		}
		c.mu.Lock()
		away := c.away
		c.mu.Unlock()
		if away != nil && count > 0 {
			close(c.isAway)
			<-away
			c.mu.Lock()
			c.away = nil
			c.mu.Unlock()
			c.rec.event(c.name, "action_end", body{"action": "stop_polling"})
			select {
			case <-c.done: // it closes instead of polling again
				return
			default:
			}
		}
		c.cl.AllowRebalance()
	}
}

// stay has the application stay with what the next poll returns.
func (c *client) stay(d time.Duration) {
	c.mu.Lock()
	c.away, c.isAway = make(chan struct{}), make(chan struct{})
	away, isAway := c.away, c.isAway
	c.mu.Unlock()
	<-isAway
	c.rec.event(c.name, "action_begin", body{"action": "stop_polling"})
	time.Sleep(d)
	close(away)
}

// stayAndClose has it close after that, with no poll in between.
func (c *client) stayAndClose(d time.Duration) {
	go c.stay(d)
	time.Sleep(d - d/4)
	c.close()
}

func (c *client) close() {
	close(c.done)
	<-c.stopped
	c.rec.event(c.name, "action_begin", body{"action": "close"})
	c.cl.CloseAllowingRebalance()
	c.rec.event(c.name, "action_end", body{"action": "close"})
	c.rec.event(c.name, "exit", body{"code": 0})
}

// crash has the broker hear no more of it.
func (c *client) crash() {
	c.rec.event(c.name, "action", body{"action": "kill -9"})
	close(c.done)
	<-c.stopped
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.stop()
	go c.cl.Close()
}

func (c *client) commit() {
	c.rec.event(c.name, "action_begin", body{"action": "CommitUncommittedOffsets"})
	err := c.cl.CommitUncommittedOffsets(context.Background())
	c.rec.event(c.name, "action_end", body{"action": "CommitUncommittedOffsets", "error": fmt.Sprint(err)})
}

func (r *recorder) write(out string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sort.SliceStable(r.events, func(i, j int) bool { return r.events[i]["at_ms"].(int64) < r.events[j]["at_ms"].(int64) })
	unlogged := body{}
	for _, c := range r.clients {
		unlogged[c.name] = c.unlogged
	}
	head := []struct {
		key   string
		value any
	}{
		{"name", r.name}, {"about", r.about}, {"client", "franz-go " + release}, {"broker", "Apache Kafka 4.3.1"},
		{"configs", body{"group.consumer.session.timeout.ms": 6000, "group.consumer.heartbeat.interval.ms": 1000,
			"group.consumer.assignment.interval.ms": 0, "group.consumer.assignor.offload.enable": false,
			"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": false}},
		{"client_configs", r.configs}, {"topics", body{"orders": 4}}, {"not_logged", unlogged},
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, h := range head {
		v, err := json.Marshal(h.value)
		must(err)
		fmt.Fprintf(&b, " %q: %s,\n", h.key, v)
	}
	b.WriteString(" \"events\": [\n")
	for i, e := range r.events {
		v, err := json.Marshal(e)
		must(err)
		end := ",\n"
		if i == len(r.events)-1 {
			end = "\n"
		}
		b.WriteString("  " + string(v) + end)
	}
	b.WriteString(" ]\n}\n")
	must(os.WriteFile(filepath.Join(out, r.name+".json"), []byte(b.String()), 0o644))
}

func (r *recorder) produce(ctx context.Context, cl *kgo.Client) {
	for {
		for p := int32(0); p < 4; p++ {
			cl.Produce(ctx, &kgo.Record{Topic: "orders" + r.suffix, Partition: p, Value: []byte("x")}, nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func main() {
	addr := flag.String("bootstrap", "127.0.0.1:9092", "the broker")
	out := flag.String("out", ".", "where the traces go")
	flag.Parse()
	wanted := map[string]bool{}
	for _, name := range flag.Args() {
		wanted[name] = true
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, 3)
	for i, s := range scenarios {
		if len(wanted) > 0 && !wanted[s.name] {
			continue
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			r := &recorder{name: s.name, about: s.about, addr: *addr, suffix: fmt.Sprintf("-%d-%d", i, os.Getpid()),
				topics: map[[16]byte]string{}, members: map[string]string{}, counts: map[string]int{}, configs: map[string]body{}}
			plain, err := kgo.NewClient(kgo.SeedBrokers(*addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			must(err)
			_, err = kadm.NewClient(plain).CreateTopics(context.Background(), 4, 1, nil, "orders"+r.suffix)
			must(err)
			ctx, cancel := context.WithCancel(context.Background())
			go r.produce(ctx, plain)
			time.Sleep(time.Second)
			r.begin = time.Now()
			s.run(r)
			cancel()
			r.write(*out)
			for _, c := range r.clients {
				c.stop()
			}
			plain.Close()
			fmt.Println(s.name)
		}()
	}
	wait.Wait()
}
