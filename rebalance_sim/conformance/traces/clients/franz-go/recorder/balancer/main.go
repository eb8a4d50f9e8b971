// Plans of franz-go's cooperative-sticky balancer for drawn groups whose members subscribe to
// different topics, a line each. kgo goes through topics in the order of a Go map, another in each
// run: a line has all plans that come out of 200.
//
//	go run ./balancer 200 >balancer/plans.jsonl
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type parts map[string][]int32

type group struct {
	Topics  map[string]int32    `json:"topics"`
	Members map[string][]string `json:"members"`
	Owned   map[string]parts    `json:"owned"`
	Plans   []map[string]parts  `json:"plans"`
}

func drawn(r *rand.Rand) group {
	g := group{map[string]int32{}, map[string][]string{}, map[string]parts{}, nil}
	for _, t := range []string{"a", "b", "c"} {
		g.Topics[t] = int32(1 + r.Intn(7))
	}
	count, claims := 2+r.Intn(5), r.Intn(3)
	for i := 0; i < count; i++ {
		var topics []string
		for _, t := range []string{"a", "b", "c"} {
			if r.Intn(3) > 0 {
				topics = append(topics, t)
			}
		}
		if topics == nil {
			topics = []string{"a", "b", "c"}[i%3 : i%3+1]
		}
		id := fmt.Sprint("m", i)
		g.Members[id], g.Owned[id] = topics, parts{}
	}
	for _, t := range []string{"a", "b", "c"} {
		for p := int32(0); p < g.Topics[t]; p++ {
			id := fmt.Sprint("m", r.Intn(count))
			if claims > 0 && r.Intn(6) > 0 {
				g.Owned[id][t] = append(g.Owned[id][t], p)
			}
		}
	}
	return g
}

func (g group) plan() map[string]parts {
	var members []kmsg.JoinGroupResponseMember
	for i := range len(g.Members) {
		id := fmt.Sprint("m", i)
		topics := g.Members[id]
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Version, meta.Topics, meta.Generation = 3, topics, 5
		for t, ps := range g.Owned[id] {
			owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
			owned.Topic, owned.Partitions = t, ps
			meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
		}
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.ProtocolMetadata = id, meta.AppendTo(nil)
		members = append(members, m)
	}
	b, _, err := kgo.CooperativeStickyBalancer().MemberBalancer(members)
	if err != nil {
		panic(err)
	}
	into, err := b.(kgo.GroupMemberBalancerOrError).BalanceOrError(g.Topics)
	if err != nil {
		panic(err)
	}
	plan := map[string]parts{}
	for _, one := range into.IntoSyncAssignment() {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(one.MemberAssignment); err != nil {
			panic(err)
		}
		plan[one.MemberID] = parts{}
		for _, t := range a.Topics {
			if len(t.Partitions) > 0 {
				sort.Slice(t.Partitions, func(i, j int) bool { return t.Partitions[i] < t.Partitions[j] })
				plan[one.MemberID][t.Topic] = t.Partitions
			}
		}
	}
	return plan
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	for seed := 0; seed < count; seed++ {
		g := drawn(rand.New(rand.NewSource(int64(seed))))
		seen := map[string]map[string]parts{}
		for i := 0; i < 200; i++ {
			plan := g.plan()
			key, _ := json.Marshal(plan)
			seen[string(key)] = plan
		}
		var keys []string
		for key := range seen {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for _, key := range keys {
			g.Plans = append(g.Plans, seen[key])
		}
		line, _ := json.Marshal(g)
		fmt.Println(string(line))
	}
}
