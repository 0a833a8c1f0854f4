import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of the queue with Kafka's own share consumer. Arguments are KEY=VALUE, with the names of `own_member`'s
 * options; life and log are the same.
 */
public final class ShareMember {
    private static final long REST_MS = 300;
    private static final double RECORDS_OF_FULL_WORK = 100;
    private static final CountDownLatch OVER = new CountDownLatch(1);

    private final Map<String, String> options;
    private final Path log;

    private ShareMember(Map<String, String> options) {
        this.options = options;
        this.log = Path.of(options.get("log"));
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            options.put(argument.substring(0, at), argument.substring(at + 1));
        }
        Thread input = new Thread(ShareMember::awaitEnd);
        input.setDaemon(true);
        input.start();
        new ShareMember(options).run();
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is said: the end is.
            }
        } catch (IOException error) {
            // That is an end, too.
        }
        OVER.countDown();
    }

    private void run() throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap"));
        properties.put("client.id", options.get("member"));
        properties.put("group.id", options.get("group"));
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("max.poll.records", options.get("records_max"));
        properties.put("share.acquire.mode", options.get("acquire_mode"));
        properties.put("request.timeout.ms", "6000");
        properties.put("default.api.timeout.ms", "10000");
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        boolean commits = Boolean.parseBoolean(options.get("commits"));
        long workMs = (long) (1000 * Double.parseDouble(options.get("work_seconds")));
        Random chance = new Random(options.get("member").hashCode());
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.setAcknowledgementCommitCallback(this::noteAnswers);
            consumer.subscribe(List.of(options.get("topic")));
            while (OVER.getCount() > 0) {
                try {
                    workOnce(consumer, commits, chance.nextDouble() * workMs);
                } catch (RuntimeException failure) {
                    add("[\"failed\"," + now() + ',' + quoted(failure.toString()) + ']');
                    OVER.await(REST_MS, TimeUnit.MILLISECONDS);
                }
            }
        }
    }

    private void workOnce(KafkaShareConsumer<byte[], byte[]> consumer, boolean commits, double workMs)
            throws InterruptedException {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
        if (records.isEmpty()) {
            return;
        }
        notePoll(records);
        double part = Math.min(records.count() / RECORDS_OF_FULL_WORK, 1.0);
        OVER.await((long) (part * workMs), TimeUnit.MILLISECONDS);
        for (ConsumerRecord<byte[], byte[]> record : records) {
            consumer.acknowledge(record, answer(record));
        }
        if (commits) {
            consumer.commitSync(Duration.ofSeconds(10));
        }
    }

    private static AcknowledgeType answer(ConsumerRecord<byte[], byte[]> record) {
        String value = new String(record.value(), StandardCharsets.UTF_8);
        if (value.startsWith("once.")) {
            return record.deliveryCount().get() == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
        }
        if (value.startsWith("release.")) {
            return AcknowledgeType.RELEASE;
        }
        return value.startsWith("reject.") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }

    private void notePoll(ConsumerRecords<byte[], byte[]> records) {
        StringBuilder runs = new StringBuilder();
        StringBuilder released = new StringBuilder();
        StringBuilder rejected = new StringBuilder();
        long partition = -1;
        long first = -1;
        long last = -1;
        long count = -1;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (record.partition() != partition || record.offset() != last + 1 || record.deliveryCount().get() != count) {
                addRow(runs, partition, first, last, count);
                partition = record.partition();
                first = record.offset();
                count = record.deliveryCount().get();
            }
            last = record.offset();
            AcknowledgeType answer = answer(record);
            if (answer != AcknowledgeType.ACCEPT) {
                addRow(answer == AcknowledgeType.RELEASE ? released : rejected, partition, last);
            }
        }
        addRow(runs, partition, first, last, count);
        add("[\"polled\"," + now() + ",[" + runs + "],[" + released + "],[" + rejected + "]]");
    }

    private void noteAnswers(Map<TopicIdPartition, Set<Long>> answered, Exception failure) {
        answered.forEach((key, offsets) -> {
            StringBuilder ranges = new StringBuilder();
            long first = -1;
            long last = -1;
            for (long offset : new TreeSet<>(offsets)) {
                if (first < 0 || offset != last + 1) {
                    if (first >= 0) {
                        addRow(ranges, key.partition(), first, last);
                    }
                    first = offset;
                }
                last = offset;
            }
            if (first >= 0) {
                addRow(ranges, key.partition(), first, last);
            }
            String error = failure == null ? "" : failure.toString();
            add("[\"answered\"," + now() + ",[" + ranges + "]," + quoted(error) + ']');
        });
    }

    private static void addRow(StringBuilder rows, long... numbers) {
        if (numbers[0] < 0) {
            return;
        }
        rows.append(rows.length() == 0 ? "[" : ",[");
        for (int index = 0; index < numbers.length; index++) {
            rows.append(index == 0 ? "" : ",").append(numbers[index]);
        }
        rows.append(']');
    }

    /** On the clock of Python's time.monotonic. */
    private static String now() {
        return String.valueOf(System.nanoTime() / 100_000 / 1e4);
    }

    private static String quoted(String text) {
        return '"' + text.replaceAll("[^ -~]|[\"\\\\]", " ") + '"';
    }

    private void add(String line) {
        try {
            byte[] data = (line + '\n').getBytes(StandardCharsets.UTF_8);
            Files.write(log, data, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
