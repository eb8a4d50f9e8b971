// What target assignments cost Kafka itself, for the sizes and kinds of ``assignors.py --large``.
//
// CPU time of the thread in milliseconds, the best of many calls on a warm JVM; topic ids are
// random. Jars come from Maven Central: kafka-clients, kafka-group-coordinator and
// kafka-group-coordinator-api of one version, and slf4j-api.
//
//     java -cp JAR:JAR:... benchmarks/KafkaAssignors.java [MEMBERS TOPICS RATIO]

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class KafkaAssignors {
    static final int BUCKETS = 5;
    static final long WARM_NS = 3_000_000_000L;
    static int memberCount = 10_000, topicCount = 100, ratio = 10;

    public static void main(String[] arguments) {
        if (arguments.length == 3) {
            memberCount = Integer.parseInt(arguments[0]);
            topicCount = Integer.parseInt(arguments[1]);
            ratio = Integer.parseInt(arguments[2]);
        }
        Random random = new Random(0);
        List<String> members = new ArrayList<>();
        for (int n = 0; n < memberCount; n++) {
            members.add(String.format("%016x", random.nextLong()));
        }
        for (String shape : List.of("homogeneous", "buckets", "overlap")) {
            server(new RangeAssignor(), shape, members);
            server(new UniformAssignor(), shape, members);
        }
        classic(new org.apache.kafka.clients.consumer.RangeAssignor(), members);
        classic(new RoundRobinAssignor(), members);
        classic(new StickyAssignor(), members);
        classic(new CooperativeStickyAssignor(), members);
    }

    /** The topics of a member, by their places, as in assignors.py. */
    static List<Integer> places(String shape, int member) {
        List<Integer> places = new ArrayList<>();
        int first = 0, size = topicCount;
        if (shape.equals("buckets")) {
            size = (topicCount + BUCKETS - 1) / BUCKETS;
            first = member * BUCKETS / memberCount * size;
        } else if (shape.equals("overlap")) {
            size = Math.max(1, topicCount / 10) + 1;
            first = member * topicCount / memberCount;
        }
        for (int n = first; n < first + size; n++) {
            places.add(n % topicCount);
        }
        return places;
    }

    static void server(PartitionAssignor assignor, String shape, List<String> members) {
        List<Uuid> topics = new ArrayList<>();
        for (int n = 0; n < topicCount; n++) {
            topics.add(Uuid.randomUuid());
        }
        int count = memberCount * ratio / topicCount;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topicId) {
                return count;
            }

            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        Map<List<Integer>, Set<Uuid>> shared = new HashMap<>();
        Map<String, Set<Uuid>> subscriptions = new LinkedHashMap<>();
        for (int n = 0; n < memberCount; n++) {
            Set<Uuid> subscription = shared.computeIfAbsent(places(shape, n),
                places -> places.stream().map(topics::get).collect(Collectors.toSet()));
            subscriptions.put(members.get(n), subscription);
        }
        Map<String, Set<Uuid>> before = new LinkedHashMap<>(subscriptions);
        before.remove(members.get(memberCount - 1));
        GroupAssignment settled = assignor.assign(spec(before, null, shape), describer);
        Map<String, GroupSpecImpl> kinds = new LinkedHashMap<>();
        kinds.put("full", spec(subscriptions, null, shape));
        kinds.put("join", spec(subscriptions, settled, shape));
        kinds.put("same", spec(before, settled, shape));
        kinds.forEach((kind, spec) ->
            report(assignor.name(), shape, kind, () -> assignor.assign(spec, describer)));
    }

    static GroupSpecImpl spec(
        Map<String, Set<Uuid>> subscriptions, GroupAssignment settled, String shape
    ) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        subscriptions.forEach((member, topics) -> {
            Map<Uuid, Set<Integer>> current = Map.of();
            if (settled != null && settled.members().containsKey(member)) {
                current = settled.members().get(member).partitions();
            }
            current.forEach((topic, partitions) -> partitions.forEach(partition ->
                owners.computeIfAbsent(topic, any -> new HashMap<>()).put(partition, member)));
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topics, new Assignment(current)));
        });
        SubscriptionType type = shape.equals("homogeneous")
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new GroupSpecImpl(members, type, owners);
    }

    static void classic(AbstractPartitionAssignor assignor, List<String> members) {
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        for (int n = 0; n < topicCount; n++) {
            String topic = String.format("topic-%04d", n);
            List<PartitionInfo> partitions = new ArrayList<>();
            for (int number = 0; number < memberCount * ratio / topicCount; number++) {
                Node[] none = new Node[0];
                partitions.add(new PartitionInfo(topic, number, Node.noNode(), none, none));
            }
            topics.put(topic, partitions);
        }
        List<String> before = members.subList(0, memberCount - 1);
        var settled = assignor.assignPartitions(topics, rows(assignor, topics, before, Map.of()));
        var kinds = new LinkedHashMap<String, Map<String, ConsumerPartitionAssignor.Subscription>>();
        kinds.put("full", rows(assignor, topics, members, Map.of()));
        kinds.put("join", rows(assignor, topics, members, settled));
        kinds.put("same", rows(assignor, topics, before, settled));
        kinds.forEach((kind, rows) -> report("classic " + assignor.name(), "homogeneous", kind, () -> {
            rows.values().stream().map(ConsumerPartitionAssignor.Subscription::userData)
                .filter(Objects::nonNull).forEach(ByteBuffer::rewind);  // Each call reads them.
            return assignor.assignPartitions(topics, rows);
        }));
    }

    static Map<String, ConsumerPartitionAssignor.Subscription> rows(
        AbstractPartitionAssignor assignor,
        Map<String, List<PartitionInfo>> topics,
        List<String> members,
        Map<String, List<TopicPartition>> settled
    ) {
        Map<String, ConsumerPartitionAssignor.Subscription> rows = new HashMap<>();
        List<String> names = new ArrayList<>(topics.keySet());
        Collections.sort(names);
        for (String member : members) {
            List<TopicPartition> owned = settled.getOrDefault(member, List.of());
            ByteBuffer data = null;
            boolean had = settled.containsKey(member);
            if (assignor instanceof StickyAssignor sticky && had) {
                sticky.onAssignment(new ConsumerPartitionAssignor.Assignment(owned),
                    new org.apache.kafka.clients.consumer.ConsumerGroupMetadata("g", 1, member,
                        Optional.empty()));
                data = sticky.subscriptionUserData(Set.copyOf(names));
                owned = List.of();
            }
            boolean cooperates = assignor instanceof CooperativeStickyAssignor;
            rows.put(member, new ConsumerPartitionAssignor.Subscription(
                names, data, cooperates ? owned : List.of(), had && cooperates ? 1 : -1,
                Optional.empty()));
        }
        return rows;
    }

    static void report(String assignor, String shape, String kind, Supplier<Object> call) {
        var threads = ManagementFactory.getThreadMXBean();
        long begin = threads.getCurrentThreadCpuTime(), best = Long.MAX_VALUE;
        for (int n = 0; n < 5 || threads.getCurrentThreadCpuTime() - begin < WARM_NS; n++) {
            long start = threads.getCurrentThreadCpuTime();
            call.get();
            best = Math.min(best, threads.getCurrentThreadCpuTime() - start);
        }
        System.out.printf("%-28s %-12s %-5s %8.2f ms%n", assignor, shape, kind, best / 1e6);
    }
}
