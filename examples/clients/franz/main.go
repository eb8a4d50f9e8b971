// A consumer of franz-go that commits what it reads, until SIGTERM, and reports to a gateway.
//
//	go run . BOOTSTRAP GROUP TOPIC [classic|consumer] [INSTANCE_ID]
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// reporter tells what the application sees, in lines of JSON; each is answered before it continues.
type reporter struct {
	sync.Mutex
	about   map[string]any
	conn    net.Conn
	answers *bufio.Reader
}

func (r *reporter) tell(event string, more map[string]any) {
	if r.conn == nil {
		return
	}
	r.Lock()
	defer r.Unlock()
	row := map[string]any{"event": event}
	for _, part := range []map[string]any{r.about, more} {
		for key, value := range part {
			row[key] = value
		}
	}
	line, _ := json.Marshal(row)
	r.conn.Write(append(line, '\n'))
	if answer, err := r.answers.ReadString('\n'); err != nil || answer != "ok\n" {
		fmt.Fprintln(os.Stderr, "reporter:", answer, err)
	}
}

func (r *reporter) callback(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		r.tell(event, map[string]any{"partitions": partitions})
	}
}

func main() {
	bootstrap, group, topic, protocol := os.Args[1], os.Args[2], os.Args[3], "classic"
	if len(os.Args) > 4 {
		protocol = os.Args[4]
	}
	clientID := fmt.Sprintf("franz-%d", os.Getpid())
	report := &reporter{about: map[string]any{
		"group": group, "client_id": clientID, "library": "franz-go", "protocol": protocol,
	}}
	if address := os.Getenv("REBALANCE_SIM_REPORT"); address != "" {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		report.conn, report.answers = conn, bufio.NewReader(conn)
		report.tell("started", map[string]any{"auto_offset_reset": "earliest"})
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(clientID),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(200 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(report.callback("assigned")),
		kgo.OnPartitionsRevoked(report.callback("revoked")),
		kgo.OnPartitionsLost(report.callback("lost")),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if len(os.Args) > 5 {
		options = append(options, kgo.InstanceID(os.Args[5]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for stopped.Err() == nil {
		polled, done := context.WithTimeout(stopped, 100*time.Millisecond)
		fetches := client.PollFetches(polled)
		done()
		rows := [][]any{}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 {
				first, next := p.Records[0].Offset, p.Records[n-1].Offset+1
				rows = append(rows, []any{p.Topic, p.Partition, first, next})
			}
		})
		fetches.EachError(func(topic string, partition int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, topic, partition, err)
			}
		})
		report.tell("polled", map[string]any{"records": rows})
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	report.tell("stopped", nil)
}
