package org.apache.spark.sql.kafka010;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import odradek.foreign.Keeper;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Set;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands before the class of this name of Spark's tests on the class path, and has what they ask of it.
 *
 * <p>A test gets one broker of Odradek. All but its start is done by clients.
 */
public class KafkaTestUtils {
    private static final long WAIT_SECONDS_MAX = 60;
    private static final long PAUSE_MS = 20;

    private final Map<String, Object> settings;
    private final boolean isSecured;
    private Keeper keeper;
    private String address;
    private Admin admin;
    private KafkaProducer<String, String> producer;

    public KafkaTestUtils(scala.collection.immutable.Map<String, Object> withBrokerProps, boolean secure) {
        this.settings = CollectionConverters.asJava(withBrokerProps);
        this.isSecured = secure;
    }

    // ------------------------------------------------------------------------------------------- life

    public void setup() {
        if (isSecured) {
            throw new IllegalStateException("needs logins by Kerberos, and the harness has no Kerberos");
        }
        Map<String, String> written = new TreeMap<>();
        brokerConfiguration().forEach((name, value) -> written.put(name.toString(), value.toString()));
        keeper = new Keeper();
        Map<String, Object> request = new HashMap<>();
        request.put("do", "start");
        request.put("brokers", 1);
        request.put("disks", 1);
        request.put("listener", "PLAINTEXT");
        request.put("protocol", "PLAINTEXT");
        request.put("settings", written);
        request.put("own_settings", Map.of());
        request.put("users", "");
        address = keeper.ask(request).get("addresses").get("0").asText();
        admin = Admin.create(Map.of("bootstrap.servers", address));
    }

    public void teardown() {
        if (keeper != null) {
            if (producer != null) {
                producer.close();
            }
            admin.close();
            keeper.close();
            keeper = null;
            producer = null;
        }
    }

    /** What a test may change before the broker starts. */
    public Properties brokerConfiguration() {
        Properties properties = new Properties();
        properties.put("group.initial.rebalance.delay.ms", "10");
        properties.put("offsets.topic.num.partitions", "1");
        properties.put("offsets.topic.replication.factor", "1");
        properties.put("transaction.state.log.replication.factor", "1");
        properties.put("transaction.state.log.min.isr", "1");
        properties.putAll(settings);
        return properties;
    }

    public String brokerAddress() {
        return address;
    }

    public String clientPrincipal() {
        throw new IllegalStateException("the harness has no Kerberos");
    }

    public String clientKeytab() {
        throw new IllegalStateException("the harness has no Kerberos");
    }

    /** Only a test asks for it whose settings keep nothing, so clients remove all. */
    public void cleanupLogs() {
        Map<TopicPartition, RecordsToDelete> all = new HashMap<>();
        partitionsOf(get(() -> admin.listTopics().names().get())).forEach(
                one -> all.put(one, RecordsToDelete.beforeOffset(-1)));
        get(() -> admin.deleteRecords(all).all().get());
    }

    // ----------------------------------------------------------------------------------------- topics

    public void createTopic(String topic) {
        createTopic(topic, 1, false);
    }

    public boolean createTopic$default$3() {
        return false;
    }

    public void createTopic(String topic, int partitions, boolean overwrite) {
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1);
        if (overwrite && get(() -> describe(topic)).isPresent()) {
            deleteTopic(topic);
        }
        // Some tests make a topic again that is there, and Spark's class does not read the answer either.
        get(() -> admin.createTopics(List.of(wanted)).all().toCompletionStage()
                .exceptionally(KafkaTestUtils::passOver).toCompletableFuture().get());
        until(() -> describe(topic).filter(one -> hasLeaders(one, partitions)).isPresent(),
                "topic " + topic + " has no leaders");
    }

    public void deleteTopic(String topic) {
        get(() -> admin.deleteTopics(List.of(topic)).all().get());
        until(() -> describe(topic).isEmpty(), "topic " + topic + " is still there");
    }

    public void addPartitions(String topic, int partitions) {
        get(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(partitions))).all().get());
        until(() -> describe(topic).filter(one -> hasLeaders(one, partitions)).isPresent(),
                "topic " + topic + " has no leaders for its new partitions");
    }

    public Seq<Tuple2<String, Object>> getAllTopicsAndPartitionSize() {
        Collection<String> names = get(() -> admin.listTopics().names().get());
        List<Tuple2<String, Object>> sizes = new ArrayList<>();
        get(() -> admin.describeTopics(names).allTopicNames().get()).forEach(
                (name, one) -> sizes.add(Tuple2.apply(name, one.partitions().size())));
        return CollectionConverters.asScala(sizes).toSeq();
    }

    private Optional<TopicDescription> describe(String topic) throws InterruptedException, ExecutionException {
        try {
            return Optional.of(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw error;
        }
    }

    private List<TopicPartition> partitionsOf(Collection<String> topics) {
        List<TopicPartition> all = new ArrayList<>();
        get(() -> admin.describeTopics(topics).allTopicNames().get()).forEach((topic, one) ->
                one.partitions().forEach(each -> all.add(new TopicPartition(topic, each.partition()))));
        return all;
    }

    private static Void passOver(Throwable error) {
        Throwable cause = error instanceof CompletionException ? error.getCause() : error;
        if (cause instanceof TopicExistsException) {
            return null;
        }
        throw KafkaTestUtils.<RuntimeException>unchecked(cause);
    }

    private static boolean hasLeaders(TopicDescription topic, int partitions) {
        return topic.partitions().size() >= partitions
                && topic.partitions().stream().allMatch(one -> one.leader() != null && !one.leader().isEmpty());
    }

    // ---------------------------------------------------------------------------------------- records

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(String topic, String[] messages) {
        return sendMessages(topic, messages, Option.empty());
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(String topic, String[] messages, Option<Object> partition) {
        Integer number = partition.isEmpty() ? null : (Integer) partition.get();
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (String message : messages) {
            records.add(new ProducerRecord<>(topic, number, null, message));
        }
        return send(records);
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessage(ProducerRecord<String, String> record) {
        return send(List.of(record));
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(ProducerRecord<String, String>[] records) {
        return send(List.of(records));
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(Seq<ProducerRecord<String, String>> records) {
        return send(CollectionConverters.asJava(records));
    }

    private Seq<Tuple2<String, RecordMetadata>> send(List<ProducerRecord<String, String>> records) {
        if (producer == null) {
            producer = new KafkaProducer<>(producerSettings(Map.of()));
        }
        List<Tuple2<String, RecordMetadata>> sent = new ArrayList<>();
        for (ProducerRecord<String, String> record : records) {
            sent.add(Tuple2.apply(record.value(), get(() -> producer.send(record).get())));
        }
        return CollectionConverters.asScala(sent).toSeq();
    }

    public void withTransactionalProducer(Function1<KafkaProducer<String, String>, ?> use) {
        Map<String, Object> own = Map.of("transactional.id", UUID.randomUUID().toString());
        try (KafkaProducer<String, String> transactional = new KafkaProducer<>(producerSettings(own))) {
            transactional.initTransactions();
            use.apply(transactional);
        }
    }

    private Map<String, Object> producerSettings(Map<String, Object> own) {
        Map<String, Object> all = new HashMap<>(own);
        all.put("bootstrap.servers", address);
        all.put("key.serializer", StringSerializer.class.getName());
        all.put("value.serializer", StringSerializer.class.getName());
        all.put("acks", "all");
        all.put("partitioner.class", "org.apache.kafka.clients.producer.internals.DefaultPartitioner");
        return all;
    }

    // ---------------------------------------------------------------------------------------- offsets

    public scala.collection.immutable.Map<TopicPartition, Object> getEarliestOffsets(Set<String> topics) {
        return offsets(topics, OffsetSpec.earliest());
    }

    public scala.collection.immutable.Map<TopicPartition, Object> getLatestOffsets(Set<String> topics) {
        return offsets(topics, OffsetSpec.latest());
    }

    private scala.collection.immutable.Map<TopicPartition, Object> offsets(Set<String> topics, OffsetSpec which) {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        partitionsOf(CollectionConverters.asJava(topics)).forEach(one -> wanted.put(one, which));
        Map<TopicPartition, Object> found = new HashMap<>();
        get(() -> admin.listOffsets(wanted).all().get()).forEach((at, one) -> found.put(at, one.offset()));
        return scala.collection.immutable.Map.from(CollectionConverters.asScala(found));
    }

    public void waitUntilOffsetAppears(TopicPartition partition, long offset) {
        until(() -> admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset()
                >= offset, partition + " does not reach offset " + offset);
    }

    public ListConsumerGroupsResult listConsumerGroups() {
        return admin.listConsumerGroups();
    }

    // ------------------------------------------------------------------------------------------ waits

    private static void until(Callable<Boolean> isSo, String failure) {
        long end = System.nanoTime() + WAIT_SECONDS_MAX * 1_000_000_000L;
        while (!get(isSo)) {
            if (System.nanoTime() > end) {
                throw new AssertionError(failure + " after " + WAIT_SECONDS_MAX + " s");
            }
            get(() -> {
                Thread.sleep(PAUSE_MS);
                return null;
            });
        }
    }

    /** An error of the broker is thrown as it is, as Scala's code expects. */
    private static <T> T get(Callable<T> asked) {
        try {
            return asked.call();
        } catch (RuntimeException error) {
            throw error;
        } catch (Exception error) {
            throw KafkaTestUtils.<RuntimeException>unchecked(error);
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E unchecked(Throwable error) throws E {
        throw (E) error;
    }
}
