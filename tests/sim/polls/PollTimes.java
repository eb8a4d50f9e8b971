import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class PollTimes {
    static long zero;
    static String maxPollInterval = "300000";
    static final ConcurrentLinkedQueue<String> out = new ConcurrentLinkedQueue<>();
    static long now() { return (System.nanoTime() - zero) / 1_000_000; }
    static void say(String client, String kind, String rest) {
        out.add("{\"at_ms\":" + now() + ",\"client\":\"" + client + "\",\"kind\":\"" + kind + "\"" + rest + "}");
    }
    static String parts(Collection<TopicPartition> ps) {
        TreeSet<Integer> s = new TreeSet<>();
        for (TopicPartition p : ps) s.add(p.partition());
        return ",\"partitions\":" + s;
    }
    static class App extends Thread {
        final String name; final Properties props; final String topic; final int timeout, away; final CountDownLatch stop;
        App(String name, Properties props, String topic, int timeout, int away, CountDownLatch stop) {
            this.name = name; this.props = props; this.topic = topic; this.timeout = timeout; this.away = away; this.stop = stop;
        }
        public void run() {
            try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(props)) {
                say(name, "subscribe", "");
                c.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                    public void onPartitionsRevoked(Collection<TopicPartition> p) { say(name, "revoked", parts(p)); }
                    public void onPartitionsAssigned(Collection<TopicPartition> p) { say(name, "assigned", parts(p)); }
                    public void onPartitionsLost(Collection<TopicPartition> p) { say(name, "lost", parts(p)); }
                });
                while (stop.getCount() > 0) {
                    long began = now();
                    ConsumerRecords<byte[], byte[]> r = c.poll(Duration.ofMillis(timeout));
                    out.add("{\"at_ms\":" + began + ",\"client\":\"" + name + "\",\"kind\":\"poll\",\"returned_ms\":" + now() + ",\"records\":" + r.count() + "}");
                    if (r.count() > 0) Thread.sleep(away);
                }
                say(name, "close", "");
            } catch (Exception e) { say(name, "exception", ",\"what\":\"" + e + "\""); }
        }
    }
    static Properties consumer(String boot, String group, String protocol) {
        Properties p = new Properties();
        p.put("bootstrap.servers", boot);
        p.put("group.id", group);
        p.put("auto.offset.reset", "latest");
        p.put("max.poll.interval.ms", maxPollInterval);
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (protocol.equals("consumer")) p.put("group.protocol", "consumer");
        else {
            p.put("heartbeat.interval.ms", "1000");
            p.put("session.timeout.ms", "6000");
            p.put("partition.assignment.strategy", protocol.equals("eager")
                ? "org.apache.kafka.clients.consumer.RangeAssignor" : "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        }
        return p;
    }
    public static void main(String[] a) throws Exception {
        String boot = a[0], protocol = a[1]; int timeout = Integer.parseInt(a[2]), away = Integer.parseInt(a[3]); int rate_ms = Integer.parseInt(a[4]);
        if (a.length > 5) maxPollInterval = a[5];
        int last_ms = a.length > 6 ? Integer.parseInt(a[6]) : 25_000;
        boolean alone = a.length > 7;
        String topic = "t-" + protocol + "-" + timeout + "-" + away + "-" + System.nanoTime();
        String group = topic;
        Properties ap = new Properties(); ap.put("bootstrap.servers", boot);
        try (Admin admin = Admin.create(ap)) { admin.createTopics(List.of(new NewTopic(topic, 6, (short) 1))).all().get(); }
        Properties pp = new Properties(); pp.put("bootstrap.servers", boot); pp.put("linger.ms", "0");
        pp.put("key.serializer", ByteArraySerializer.class.getName()); pp.put("value.serializer", ByteArraySerializer.class.getName());
        // Classes are loaded by a consumer of another group, before the clock starts.
        CountDownLatch warm = new CountDownLatch(1);
        zero = System.nanoTime();
        App w = new App("warm", consumer(boot, group + "-warm", protocol), topic, 100, 1, warm); w.start();
        AtomicBoolean producing = new AtomicBoolean(true);
        Thread producer = new Thread(() -> {
            try (KafkaProducer<byte[], byte[]> p = new KafkaProducer<>(pp)) {
                while (producing.get()) {
                    for (int i = 0; i < 6; i++) p.send(new ProducerRecord<>(topic, i, null, new byte[10]));
                    Thread.sleep(rate_ms);
                }
            } catch (Exception e) { throw new RuntimeException(e); }
        });
        producer.start();
        Thread.sleep(6000); warm.countDown(); w.join(); out.clear();
        zero = System.nanoTime();
        CountDownLatch stop = new CountDownLatch(1);
        App A = new App("A", consumer(boot, group, protocol), topic, timeout, away, stop);
        App B = new App("B", consumer(boot, group, protocol), topic, timeout, away, stop);
        App C = new App("C", consumer(boot, group, protocol), topic, timeout, away, stop);
        A.start(); Thread.sleep(1300); if (!alone) B.start();
        Thread.sleep(18_700); if (!alone) C.start();
        Thread.sleep(last_ms);
        stop.countDown(); A.join(); B.join(); C.join(); producing.set(false); producer.join();
        List<String> lines = new ArrayList<>(out);
        System.out.println("{\"protocol\":\"" + protocol + "\",\"poll_timeout_ms\":" + timeout + ",\"away_ms\":" + away + ",\"records_every_ms\":" + rate_ms + "}");
        lines.forEach(System.out::println);
    }
}
