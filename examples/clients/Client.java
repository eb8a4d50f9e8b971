import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/**
 * A consumer of kafka-clients that commits what it reads, until SIGTERM, and reports to a gateway.
 *
 * java -cp 'JARS/*' Client.java BOOTSTRAP GROUP TOPIC [classic|consumer] [INSTANCE_ID]
 */
public class Client {
    public static void main(String[] words) throws Exception {
        String protocol = words.length > 3 ? words[3] : "classic";
        String clientId = "java-" + ProcessHandle.current().pid();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[1]);
        settings.put("client.id", clientId);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "200");
        settings.put("metadata.max.age.ms", "1000");
        String type = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", type);
        settings.put("value.deserializer", type);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        if (words.length > 4) {
            settings.put("group.instance.id", words[4]);
        }
        Reporter reporter = new Reporter(words[1], clientId, protocol);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(words[2]), reporter);
        try {
            while (true) {
                reporter.delivered(consumer.poll(Duration.ofMillis(100)));
            }
        } catch (WakeupException stopped) {
            consumer.close();
            reporter.tell("stopped", "");
        }
    }

    /** Tells what the application sees, in lines of JSON; each is answered before it continues. */
    static class Reporter implements ConsumerRebalanceListener {
        private final String about;
        private Socket socket;
        private BufferedReader answers;

        Reporter(String group, String clientId, String protocol) throws IOException {
            about = "{\"group\": \"" + group + "\", \"client_id\": \"" + clientId
                + "\", \"library\": \"kafka-clients\", \"protocol\": \"" + protocol + "\", \"event\": \"";
            String address = System.getenv("REBALANCE_SIM_REPORT");
            if (address != null) {
                int colon = address.lastIndexOf(':');
                int port = Integer.parseInt(address.substring(colon + 1));
                socket = new Socket(address.substring(0, colon), port);
                socket.setTcpNoDelay(true);
                answers = new BufferedReader(
                    new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                tell("started", ", \"auto_offset_reset\": \"earliest\"");
            }
        }

        synchronized void tell(String event, String more) {
            if (socket == null) {
                return;
            }
            try {
                byte[] line = (about + event + "\"" + more + "}\n").getBytes(StandardCharsets.UTF_8);
                socket.getOutputStream().write(line);
                String answer = answers.readLine();
                if (!"ok".equals(answer)) {
                    System.err.println("reporter: " + answer);
                }
            } catch (IOException problem) {
                throw new UncheckedIOException(problem);
            }
        }

        private void callback(String event, Collection<TopicPartition> partitions) {
            tell(event, ", \"partitions\": " + partitions.stream()
                .collect(Collectors.groupingBy(TopicPartition::topic, TreeMap::new,
                    Collectors.mapping(one -> "" + one.partition(), Collectors.joining(", "))))
                .entrySet().stream().map(row -> "\"" + row.getKey() + "\": [" + row.getValue() + "]")
                .collect(Collectors.joining(", ", "{", "}")));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            callback("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            callback("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            callback("lost", partitions);
        }

        void delivered(ConsumerRecords<byte[], byte[]> records) {
            tell("polled", ", \"records\": " + records.partitions().stream().map(partition -> {
                List<ConsumerRecord<byte[], byte[]>> rows = records.records(partition);
                return "[\"" + partition.topic() + "\", " + partition.partition() + ", "
                    + rows.get(0).offset() + ", " + (rows.get(rows.size() - 1).offset() + 1) + "]";
            }).collect(Collectors.joining(", ", "[", "]")));
        }
    }
}
