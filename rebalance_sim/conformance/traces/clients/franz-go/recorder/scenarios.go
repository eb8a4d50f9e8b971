package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type scenario struct {
	name, about string
	run         func(r *recorder)
}

var (
	nextGen = body{"group.protocol": "consumer"}
	classic = body{"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky",
		"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
	eager  = with(classic, "partition.assignment.strategy", "range")
	sticky = with(classic, "partition.assignment.strategy", "sticky")
	greedy = with(with(eager, "greedy.auto.commit", "true"), "auto.commit.interval.ms", "1000")
	mixed  = with(classic, "partition.assignment.strategy", "cooperative-sticky,range")
	hasty  = with(nextGen, "auto.commit.interval.ms", "1500")
)

func with(settings body, key string, value any) body {
	all := body{key: value}
	for k, v := range settings {
		if k != key {
			all[k] = v
		}
	}
	return all
}

func seconds(s float64) { time.Sleep(time.Duration(s * float64(time.Second))) }

func options(settings body) []kgo.Opt {
	var opts []kgo.Opt
	if interval, ok := settings["auto.commit.interval.ms"]; ok {
		d, err := time.ParseDuration(interval.(string) + "ms")
		must(err)
		opts = append(opts, kgo.AutoCommitInterval(d))
	}
	if settings["group.protocol"] == "consumer" {
		return opts
	}
	opts = append(opts, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(time.Second))
	switch settings["partition.assignment.strategy"] {
	case "range":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case "sticky":
		opts = append(opts, kgo.Balancers(kgo.StickyBalancer()))
	case "cooperative-sticky,range":
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()))
	}
	if settings["greedy.auto.commit"] == "true" {
		opts = append(opts, kgo.GreedyAutoCommit())
	}
	return opts
}

func (r *recorder) begins(name string, settings body) *client {
	return r.start(name, settings, options(settings)...)
}

func beat(settings body) string {
	if settings["group.protocol"] == "consumer" {
		return "ConsumerGroupHeartbeat"
	}
	return "Heartbeat"
}

func joinClose(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(7.3)
		a.close()
	}
}

func twoMembers(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(3.2)
		b := r.begins("B", s)
		seconds(5)
		b.close()
		seconds(3)
		a.close()
	}
}

func killed(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(1.5)
		b := r.begins("B", s)
		seconds(4.3)
		b.crash()
		seconds(8.5)
		a.close()
	}
}

func commits(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		a.commits = true
		seconds(2.2)
		a.commit()
		seconds(1.1)
		b := r.begins("B", s)
		seconds(4)
		b.close()
		a.close()
	}
}

func slowRevoked(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		a.slow["OnPartitionsRevoked"] = 2500 * time.Millisecond
		seconds(2.2)
		b := r.begins("B", s)
		seconds(7)
		b.close()
		seconds(4)
		a.close()
	}
}

func blocked(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(2.2)
		go func() {
			seconds(1)
			r.begins("B", s)
		}()
		a.stay(4 * time.Second)
		seconds(4)
		for _, c := range r.clients[1:] {
			c.close()
		}
		a.close()
	}
}

func closedInstead(r *recorder) {
	a := r.begins("A", nextGen)
	seconds(2.2)
	go func() {
		seconds(1)
		r.begins("B", nextGen)
	}()
	a.stayAndClose(4 * time.Second)
	seconds(3)
	for _, c := range r.clients[1:] {
		c.close()
	}
}

func cutOff(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(1.2)
		b := r.begins("B", s)
		seconds(4.2)
		a.hold()
		seconds(8.5)
		a.release()
		seconds(5)
		b.close()
		a.close()
	}
}

func answered(s body, code *kerr.Error, name string, count int) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(3.5)
		a.addRule(&rule{api: beat(s), what: "replace_response", count: count, code: code.Code}, body{"error_code": name})
		seconds(5.2)
		a.close()
	}
}

func lost(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(3.5)
		a.addRule(&rule{api: beat(s), what: "drop_response", count: 1}, nil)
		seconds(4.2)
		a.close()
	}
}

func killedConnections(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(3.5)
		a.kill(true)
		seconds(4.2)
		a.close()
	}
}

func staticReturn(s body) func(*recorder) {
	return func(r *recorder) {
		static := with(s, "group.instance.id", "i1")
		a := r.begins("A", static)
		seconds(1.2)
		b := r.begins("B", s)
		seconds(4.2)
		a.close()
		a.stop()
		seconds(2)
		a = r.begins("A", static)
		seconds(9)
		b.close()
		a.close()
	}
}

func delayed(s body) func(*recorder) {
	return func(r *recorder) {
		a := r.begins("A", s)
		seconds(3.5)
		a.addRule(&rule{api: beat(s), what: "delay_response", count: 1, ms: 2500}, body{"ms": 2500})
		seconds(6.2)
		a.close()
	}
}

func staleFetch(r *recorder) {
	a := r.begins("A", nextGen)
	seconds(2.2)
	b := r.begins("B", nextGen)
	b.addRule(&rule{api: "OffsetFetch", what: "replace_response", count: 2, code: kerr.StaleMemberEpoch.Code}, body{"error_code": "stale_member_epoch"})
	seconds(5)
	b.close()
	a.close()
}

func unknownJoining(r *recorder) {
	a := r.begins("A", classic)
	seconds(2.2)
	a.addRule(&rule{api: "JoinGroup", what: "replace_response", count: 1, code: kerr.UnknownMemberID.Code}, body{"error_code": "unknown_member_id"})
	b := r.begins("B", classic)
	seconds(12)
	b.close()
	a.close()
}

func notCoordinator(s body) func(*recorder) {
	return answered(s, kerr.NotCoordinator, "not_coordinator", 2)
}

func isLeave(req kmsg.Request) bool {
	t, ok := req.(*kmsg.ConsumerGroupHeartbeatRequest)
	return ok && t.MemberEpoch < 0
}

func leaveLost(r *recorder) {
	a := r.begins("A", nextGen)
	seconds(2.5)
	a.addRule(&rule{api: "ConsumerGroupHeartbeat", what: "drop_response", count: 1, matches: isLeave}, body{"which": "the next to a leave"})
	a.close()
}

// downgraded has a member join that knows eager balancers only.
func downgraded(r *recorder) {
	a := r.begins("A", mixed)
	seconds(3.2)
	b := r.begins("B", eager)
	seconds(5)
	b.close()
	seconds(4)
	a.close()
}

// greedily has a member stay with its records until they are committed.
func greedily(r *recorder) {
	a := r.begins("A", greedy)
	seconds(3.2)
	a.stay(3 * time.Second)
	seconds(2)
	a.close()
}

// waitingCommit has a member's commits wait while it gives partitions up, and give up more than once
// before its epoch is another one.
func waitingCommit(r *recorder) {
	seconds(0.25) // records come at other times than commits
	a := r.begins("A", hasty)
	a.slow["OnPartitionsRevoked"] = 700 * time.Millisecond
	seconds(4.3)
	a.addRule(&rule{api: "OffsetCommit", what: "delay_response", count: 2, ms: 4000}, body{"ms": 4000})
	seconds(0.4)
	b := r.begins("B", hasty)
	seconds(4.05)
	c, d := r.begins("C", hasty), r.begins("D", hasty)
	seconds(2.5)
	a.mu.Lock()
	delete(a.slow, "OnPartitionsRevoked")
	a.mu.Unlock()
	seconds(4)
	for _, each := range []*client{d, c, b, a} {
		each.close()
	}
}

var scenarios = []scenario{
	{"join_consume_close", "One member joins, consumes and closes.", joinClose(nextGen)},
	{"two_members", "B joins, A gives up half; B closes, A gets it back.", twoMembers(nextGen)},
	{"killed", "B is gone without a word.", killed(nextGen)},
	{"commit_in_revoked_callback", "A commits, and commits in OnPartitionsRevoked.", commits(nextGen)},
	{"slow_revoked_callback", "OnPartitionsRevoked of A takes 2.5 s.", slowRevoked(nextGen)},
	{"poll_blocks_rebalance", "A stays with its records for 4 s, while B joins.", blocked(nextGen)},
	{"closed_before_revocation", "A closes when it has been given less, and has not polled since.", closedInstead},
	{"fenced_after_partition", "A is cut off for longer than its session.", cutOff(nextGen)},
	{"fenced_member_epoch", "A is told that its epoch is not the present one.", answered(nextGen, kerr.FencedMemberEpoch, "fenced_member_epoch", 1)},
	{"coordinator_moved", "A is told twice that the broker is not the coordinator.", notCoordinator(nextGen)},
	{"response_lost_steady", "The answer to a heartbeat is lost.", lost(nextGen)},
	{"response_delayed", "The answer to a heartbeat takes 2.5 s.", delayed(nextGen)},
	{"response_lost_leaving", "The answer to the leave is lost.", leaveLost},
	{"connections_killed", "All connections are closed with no heartbeat in flight.", killedConnections(nextGen)},
	{"static_close_and_return", "A static member closes, and comes back 2 s later.", staticReturn(nextGen)},
	{"offset_fetch_stale_epoch", "OffsetFetch of B is refused twice for a stale epoch.", staleFetch},
	{"waiting_commit", "Commits of A wait for answers that take 4 s; B joins meanwhile, then C and D.", waitingCommit},
	{"classic_join_close", "One classic member joins, consumes and closes.", joinClose(classic)},
	{"classic_cooperative", "B joins, A gives up half; B closes, A gets it back.", twoMembers(classic)},
	{"classic_eager", "The same with the range balancer.", twoMembers(eager)},
	{"classic_sticky", "The same with the sticky balancer, which is eager.", twoMembers(sticky)},
	{"classic_downgraded", "A has cooperative-sticky and range. B joins, which has range, and closes.", downgraded},
	{"classic_greedy_commit", "A stays with its records for 3 s, and commits them meanwhile: GreedyAutoCommit.", greedily},
	{"classic_killed", "B is gone without a word.", killed(classic)},
	{"classic_commit_in_revoked_callback", "A commits, and commits in OnPartitionsRevoked.", commits(classic)},
	{"classic_slow_revoked_callback", "OnPartitionsRevoked of A takes 2.5 s.", slowRevoked(classic)},
	{"classic_poll_blocks_rebalance", "A stays with its records for 4 s, while B joins.", blocked(classic)},
	{"classic_eager_poll_blocks_rebalance", "The same with the range balancer.", blocked(eager)},
	{"classic_session_timeout", "A is cut off for longer than its session.", cutOff(classic)},
	{"classic_illegal_generation", "A is told that its generation is not the present one.", answered(classic, kerr.IllegalGeneration, "illegal_generation", 1)},
	{"classic_unknown_member_joining", "JoinGroup of A is refused while it owns partitions.", unknownJoining},
	{"classic_coordinator_moved", "A is told twice that the broker is not the coordinator.", notCoordinator(classic)},
	{"classic_response_lost_steady", "The answer to a heartbeat is lost.", lost(classic)},
	{"classic_static_close_and_return", "A static member closes, and comes back 2 s later.", staticReturn(classic)},
}
