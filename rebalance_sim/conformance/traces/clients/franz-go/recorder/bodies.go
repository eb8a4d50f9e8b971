package main

// Requests and answers as traces write them.

import (
	"encoding/base64"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type body = map[string]any

func errName(code int16) string {
	if code == 0 {
		return "none"
	}
	return strings.ToLower(kerr.ErrorForCode(code).(*kerr.Error).Message)
}

func sorted(ps []int32) []int32 {
	out := append([]int32{}, ps...)
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func (p *proxy) logRequest(conn int, req kmsg.Request) int {
	api := kmsg.NameForKey(req.Key())
	b := p.request(req)
	p.mu.Lock()
	defer p.mu.Unlock()
	if b == nil {
		p.unlogged[api]++
		return 0
	}
	p.ids++
	if !p.silent {
		p.rec.event(p.client, "request", body{"id": p.ids, "conn": conn, "api": api, "version": req.GetVersion(), "body": b})
	}
	return p.ids
}

func (p *proxy) logResponse(conn int, of pending, resp kmsg.Response, delivered bool) {
	b := p.response(of.req, resp)
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if b == nil || silent {
		return
	}
	e := body{"id": of.id, "conn": conn, "api": kmsg.NameForKey(of.req.Key()), "body": b}
	if !delivered {
		e["delivered"] = false
	}
	p.rec.event(p.client, "response", e)
}

func (p *proxy) request(req kmsg.Request) body {
	r := p.rec
	switch t := req.(type) {
	case *kmsg.FindCoordinatorRequest:
		return body{"key_type": t.CoordinatorType, "coordinator_keys": []string{"group"}}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		var owned, names any
		if t.Topics != nil {
			by := body{}
			for _, topic := range t.Topics {
				by[r.topic(topic.TopicID, "")] = sorted(topic.Partitions)
			}
			owned = by
		}
		if t.SubscribedTopicNames != nil {
			list := []string{}
			for _, name := range t.SubscribedTopicNames {
				list = append(list, r.plain(name))
			}
			names = list
		}
		var regex *string
		if t.SubscribedTopicRegex != nil {
			s := r.plain(*t.SubscribedTopicRegex)
			regex = &s
		}
		return body{"group_id": "group", "member_id": r.member(p.client, t.MemberID), "member_epoch": t.MemberEpoch,
			"instance_id": t.InstanceID, "rack_id": t.RackID, "rebalance_timeout_ms": t.RebalanceTimeoutMillis,
			"subscribed_topic_names": names, "subscribed_topic_regex": regex,
			"server_assignor": t.ServerAssignor, "topic_partitions": owned}
	case *kmsg.JoinGroupRequest:
		protocols := []body{}
		for _, protocol := range t.Protocols {
			protocols = append(protocols, p.protocol(protocol))
		}
		return body{"group_id": "group", "session_timeout_ms": t.SessionTimeoutMillis,
			"rebalance_timeout_ms": t.RebalanceTimeoutMillis, "member_id": r.member(p.client, t.MemberID),
			"group_instance_id": t.InstanceID, "protocol_type": t.ProtocolType, "protocols": protocols, "reason": t.Reason}
	case *kmsg.SyncGroupRequest:
		given := body{}
		for _, one := range t.GroupAssignment {
			given[r.other(p.client, one.MemberID)] = p.assignment(one.MemberAssignment)
		}
		return body{"group_id": "group", "generation_id": t.Generation, "member_id": r.member(p.client, t.MemberID),
			"group_instance_id": t.InstanceID, "protocol_type": t.ProtocolType, "protocol_name": t.Protocol, "assignments": given}
	case *kmsg.HeartbeatRequest:
		return body{"group_id": "group", "generation_id": t.Generation, "member_id": r.member(p.client, t.MemberID), "group_instance_id": t.InstanceID}
	case *kmsg.LeaveGroupRequest:
		members := []body{}
		for _, m := range t.Members {
			members = append(members, body{"member_id": r.member(p.client, m.MemberID), "group_instance_id": m.InstanceID, "reason": m.Reason})
		}
		return body{"group_id": "group", "members": members}
	case *kmsg.OffsetCommitRequest:
		by := body{}
		for _, topic := range t.Topics {
			ps := body{}
			for _, partition := range topic.Partitions {
				ps[strconv.Itoa(int(partition.Partition))] = partition.Offset
			}
			by[r.topic(topic.TopicID, topic.Topic)] = ps
		}
		return body{"group_id": "group", "generation_id_or_member_epoch": t.Generation,
			"member_id": r.member(p.client, t.MemberID), "group_instance_id": t.InstanceID, "topics": by}
	case *kmsg.OffsetFetchRequest:
		groups := []body{}
		for _, group := range t.Groups {
			by := body{}
			for _, topic := range group.Topics {
				by[r.topic(topic.TopicID, topic.Topic)] = sorted(topic.Partitions)
			}
			var id any
			if group.MemberID != nil {
				id = r.member(p.client, *group.MemberID)
			}
			groups = append(groups, body{"group_id": "group", "member_id": id, "member_epoch": group.MemberEpoch, "topics": by})
		}
		return body{"groups": groups, "require_stable": t.RequireStable}
	}
	return nil
}

func (p *proxy) protocol(protocol kmsg.JoinGroupRequestProtocol) body {
	var meta kmsg.ConsumerMemberMetadata
	must(meta.ReadFrom(protocol.Metadata))
	topics := []string{}
	for _, topic := range meta.Topics {
		topics = append(topics, p.rec.plain(topic))
	}
	owned := body{}
	for _, o := range meta.OwnedPartitions {
		owned[p.rec.plain(o.Topic)] = sorted(o.Partitions)
	}
	var said any
	if len(meta.UserData) > 0 {
		var user kmsg.StickyMemberMetadata
		if user.ReadFrom(meta.UserData) == nil {
			before := body{}
			for _, c := range user.CurrentAssignment {
				before[p.rec.plain(c.Topic)] = sorted(c.Partitions)
			}
			said = body{"partitions": before, "generation": user.Generation}
		} else {
			said = base64.StdEncoding.EncodeToString(meta.UserData)
		}
	}
	return body{"name": protocol.Name, "version": meta.Version, "topics": topics, "user_data": said,
		"owned_partitions": owned, "generation_id": meta.Generation, "rack_id": meta.Rack}
}

func (p *proxy) assignment(raw []byte) any {
	if len(raw) == 0 {
		return body{}
	}
	var a kmsg.ConsumerMemberAssignment
	must(a.ReadFrom(raw))
	by := body{}
	for _, topic := range a.Topics {
		by[p.rec.plain(topic.Topic)] = sorted(topic.Partitions)
	}
	return by
}

func (p *proxy) response(req kmsg.Request, resp kmsg.Response) body {
	r := p.rec
	switch t := resp.(type) {
	case *kmsg.FindCoordinatorResponse:
		found := []body{}
		for _, c := range t.Coordinators {
			found = append(found, body{"key": "group", "node_id": c.NodeID, "error_code": errName(c.ErrorCode), "error_message": c.ErrorMessage})
		}
		return body{"coordinators": found}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if t.ErrorCode != 0 {
			return body{"error_code": errName(t.ErrorCode), "error_message": t.ErrorMessage}
		}
		var assignment, id any
		if t.Assignment != nil {
			by := body{}
			for _, topic := range t.Assignment.Topics {
				by[r.topic(topic.TopicID, "")] = sorted(topic.Partitions)
			}
			assignment = by
		}
		if t.MemberID != nil {
			id = r.member(p.client, *t.MemberID)
		}
		return body{"error_code": "none", "error_message": t.ErrorMessage, "member_id": id, "member_epoch": t.MemberEpoch,
			"heartbeat_interval_ms": t.HeartbeatIntervalMillis, "assignment": assignment}
	case *kmsg.JoinGroupResponse:
		own := r.member(p.client, t.MemberID)
		members := []body{}
		for _, m := range t.Members {
			members = append(members, body{"member_id": r.other(p.client, m.MemberID), "group_instance_id": m.InstanceID})
		}
		return body{"error_code": errName(t.ErrorCode), "generation_id": t.Generation, "protocol_type": t.ProtocolType,
			"protocol_name": t.Protocol, "leader": p.leader(t.LeaderID), "skip_assignment": t.SkipAssignment,
			"member_id": own, "members": members}
	case *kmsg.SyncGroupResponse:
		return body{"error_code": errName(t.ErrorCode), "protocol_type": t.ProtocolType, "protocol_name": t.Protocol,
			"assignment": p.assignment(t.MemberAssignment)}
	case *kmsg.HeartbeatResponse:
		return body{"error_code": errName(t.ErrorCode)}
	case *kmsg.LeaveGroupResponse:
		members := []body{}
		for _, m := range t.Members {
			members = append(members, body{"member_id": r.member(p.client, m.MemberID), "group_instance_id": m.InstanceID, "error_code": errName(m.ErrorCode)})
		}
		return body{"error_code": errName(t.ErrorCode), "members": members}
	case *kmsg.OffsetCommitResponse:
		by := body{}
		for _, topic := range t.Topics {
			ps := body{}
			for _, partition := range topic.Partitions {
				ps[strconv.Itoa(int(partition.Partition))] = errName(partition.ErrorCode)
			}
			by[r.topic(topic.TopicID, topic.Topic)] = ps
		}
		return body{"topics": by}
	case *kmsg.OffsetFetchResponse:
		groups := []body{}
		for _, group := range t.Groups {
			by := body{}
			for _, topic := range group.Topics {
				ps := body{}
				for _, partition := range topic.Partitions {
					var v any = partition.Offset
					if partition.ErrorCode != 0 {
						v = errName(partition.ErrorCode)
					}
					ps[strconv.Itoa(int(partition.Partition))] = v
				}
				by[r.topic(topic.TopicID, topic.Topic)] = ps
			}
			groups = append(groups, body{"group_id": "group", "error_code": errName(group.ErrorCode), "topics": by})
		}
		return body{"groups": groups}
	}
	return nil
}

func (p *proxy) leader(id string) string {
	if id == "" {
		return ""
	}
	return p.rec.other(p.client, id)
}
