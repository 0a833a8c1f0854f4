package odradek.foreign;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.mockito.invocation.InvocationOnMock;
import org.opentest4j.TestAbortedException;

/**
 * Processes of Odradek behind the interface by which Kafka's tests see a cluster. Where a test asks for an object in
 * Kafka's broker for which nothing stands in, it says nothing about another broker, and is aborted.
 *
 * <p>Some methods are those of one version of the interface only, so they are not marked as overriding.
 */
public final class OdradekCluster implements ClusterInstance {
    private static final String AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    private static final long WAIT_SECONDS_MAX = 60;
    private static final long PAUSE_MS = 50;
    /** `reconnect.backoff.max.ms`, and a fifth of it that clients may add. */
    private static final long RECONNECT_MS_MAX = 1_200;

    private final ClusterConfig config;
    private final boolean isCombined;
    private final Map<Integer, String> addresses = new TreeMap<>();
    private final Map<Integer, List<String>> directories = new HashMap<>();
    private final Set<Integer> alive = new HashSet<>();
    private final Map<Integer, BrokerServer> servers = new TreeMap<>();
    private Keeper keeper;
    private boolean hasStarted;
    private boolean hasStopped;

    public OdradekCluster(ClusterConfig config, boolean isCombined) {
        this.config = config;
        this.isCombined = isCombined;
    }

    // ------------------------------------------------------------------------------------------- life

    @Override
    public void start() {
        if (hasStarted) {
            return;
        }
        hasStarted = true;
        keeper = new Keeper();
        Map<String, Object> request = new LinkedHashMap<>();
        request.put("do", "start");
        request.put("brokers", config.numBrokers());
        request.put("disks", config.numDisksPerBroker());
        request.put("listener", config.brokerListenerName().value());
        request.put("protocol", config.brokerSecurityProtocol().name);
        request.put("settings", settings());
        request.put("users", users());
        request.put("own_settings", config.perServerOverrideProperties());
        JsonNode answer = keeper.ask(request);
        answer.get("addresses").fields().forEachRemaining(
                one -> addresses.put(Integer.valueOf(one.getKey()), one.getValue().asText()));
        answer.get("directories").fields().forEachRemaining(one -> {
            List<String> named = new ArrayList<>();
            one.getValue().forEach(directory -> named.add(directory.asText()));
            directories.put(Integer.valueOf(one.getKey()), named);
        });
        alive.addAll(addresses.keySet());
        setFeatures();
    }

    /** What the test asks for, and what Kafka's test kit adds to it. */
    private Map<String, String> settings() {
        Map<String, String> settings = new TreeMap<>(config.serverProperties());
        settings.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152");
        if (Short.valueOf((short) 0).equals(config.features().get(Feature.GROUP_VERSION))) {
            // Here the level is always 1, and this setting leaves the consumer protocol out.
            settings.putIfAbsent("group.coordinator.rebalance.protocols", "classic");
        }
        if (config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            settings.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            settings.putIfAbsent("sasl.mechanism.inter.broker.protocol", "PLAIN");
            settings.putIfAbsent("sasl.mechanism.controller.protocol", "PLAIN");
            settings.putIfAbsent("authorizer.class.name", AUTHORIZER);
            settings.putIfAbsent("allow.everyone.if.no.acl.found", "false");
            settings.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        }
        return settings;
    }

    /** Options of PLAIN's login module: the name of the brokers, and who may log in. */
    private static String users() {
        return String.format("username=\"%1$s\" password=\"%2$s\" user_%1$s=\"%2$s\" user_%3$s=\"%4$s\"",
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
                JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD);
    }

    private void setFeatures() {
        if (config.features().isEmpty()) {
            return;
        }
        try (Admin admin = admin()) {
            FeatureMetadata present = admin.describeFeatures().featureMetadata().get();
            Map<String, FeatureUpdate> updates = new HashMap<>();
            config.features().forEach((feature, level) -> {
                String name = feature.featureName();
                short now = Optional.ofNullable(present.finalizedFeatures().get(name))
                        .map(one -> one.maxVersionLevel()).orElse((short) 0);
                if (level == now || name.equals("metadata.version") || feature == Feature.GROUP_VERSION) {
                    return;
                }
                if (!present.supportedFeatures().containsKey(name)) {
                    throw new TestAbortedException("needs the feature " + name + ", which Odradek does not have");
                }
                updates.put(name, new FeatureUpdate(level, level > now
                        ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE));
            });
            if (!updates.isEmpty()) {
                admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
            }
        } catch (ExecutionException | InterruptedException error) {
            throw new IllegalStateException("the test's features could not be set", error);
        }
    }

    @Override
    public boolean started() {
        return hasStarted;
    }

    @Override
    public void stop() {
        if (!hasStopped) {
            hasStopped = true;
            if (keeper != null) {
                keeper.close();
            }
        }
    }

    @Override
    public boolean stopped() {
        return hasStopped;
    }

    @Override
    public void shutdownBroker(int id) {
        keeper.ask(Map.of("do", "stop_broker", "id", id));
        alive.remove(id);
    }

    @Override
    public void startBroker(int id) {
        keeper.ask(Map.of("do", "start_broker", "id", id));
        alive.add(id);
        // Kafka's broker takes longer to start than clients pause before they connect again. Ours may be there within
        // a pause, in which a client fails what it is asked to send.
        Utils.sleep(RECONNECT_MS_MAX);
    }

    // --------------------------------------------------------------------------------- what it is

    @Override
    public Type type() {
        return isCombined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        return String.join(",", addresses.values());
    }

    @Override
    public String bootstrapControllers() {
        throw new TestAbortedException("asks controllers themselves: Odradek's answer only brokers");
    }

    @Override
    public Set<Integer> brokerIds() {
        return new HashSet<>(addresses.keySet());
    }

    @Override
    public Set<Integer> controllerIds() {
        int first = isCombined ? TestKitDefaults.BROKER_ID_OFFSET : TestKitDefaults.CONTROLLER_ID_OFFSET;
        return IntStream.range(first, first + config.numControllers()).boxed()
                .collect(Collectors.toCollection(HashSet::new));
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    public List<Integer> brokerBoundPorts() {
        return addresses.values().stream()
                .map(OdradekCluster::port).toList();
    }

    private static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (ExecutionException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String named = config.serverProperties()
                .getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer");
        return Arrays.asList(named.split(",")).contains("consumer")
                ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    // ---------------------------------------------------------------- objects inside Kafka's broker

    /** Brokers that can be started and stopped, and say where they listen; all else is inside Kafka's. */
    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return new TreeMap<>(servers());
    }

    @Override
    public Map<Integer, KafkaBroker> aliveBrokers() {
        Map<Integer, KafkaBroker> brokers = brokers();
        brokers.keySet().retainAll(alive);
        return brokers;
    }

    /** The same, by the name of Kafka's class. */
    public Map<Integer, BrokerServer> servers() {
        addresses.keySet().forEach(id -> servers.computeIfAbsent(id, one ->
                StandIns.standIn("broker " + one, BrokerServer.class, call -> ofBroker(one, call))));
        return servers;
    }

    private Object ofBroker(int id, InvocationOnMock call) {
        switch (call.getMethod().getName()) {
            case "shutdown" -> shutdownBroker(id);
            case "startup" -> startBroker(id);
            case "awaitShutdown" -> { }
            case "isShutdown" -> {
                return !alive.contains(id);
            }
            case "brokerState" -> {
                return alive.contains(id) ? BrokerState.RUNNING : BrokerState.SHUTTING_DOWN;
            }
            case "boundPort" -> {
                return port(addresses.get(id));
            }
            case "clusterId" -> {
                return clusterId();
            }
            default -> {
                return new StandIns(id, directories.get(id), clientListener(), answersOf(id)).of(call.getMethod());
            }
        }
        return null;
    }

    private BrokerAnswers answersOf(int broker) {
        return new BrokerAnswers(this, addresses.get(broker));
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        throw StandIns.inside("controller");
    }

    public Collection<SocketServer> controllerSocketServers() {
        throw StandIns.inside("controller");
    }

    @Override
    public List<Authorizer> authorizers() {
        throw StandIns.inside("broker");
    }

    // ---------------------------------------------------------------------------------------- waits

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        waitUntil(() -> {
            try (Admin admin = admin()) {
                Set<Integer> seen = admin.describeCluster().nodes().get().stream().map(Node::id)
                        .collect(Collectors.toSet());
                return seen.containsAll(alive);
            } catch (ExecutionException | InterruptedException error) {
                return false;
            }
        }, "not all brokers are ready");
    }

    public void waitForTopic(String topic, int partitions) throws InterruptedException {
        if (partitions == 0) {
            waitTopicDeletion(topic);
        } else {
            waitTopicCreation(topic, partitions);
        }
    }

    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) {
            throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
        }
        onEachBroker("topic " + topic + " with " + partitions + " partitions", consumer -> {
            List<PartitionInfo> known = consumer.partitionsFor(topic);
            return known.size() == partitions && known.stream().allMatch(OdradekCluster::hasLeader);
        });
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        onEachBroker("no topic " + topic, consumer -> consumer.partitionsFor(topic).isEmpty());
    }

    public void ensureConsistentMetadata() throws InterruptedException {
        waitUntil(() -> alive.stream().map(this::leadersAt).distinct().count() <= 1,
                "brokers differ in what they know");
    }

    private Set<String> leadersAt(int broker) {
        try (Consumer<byte[], byte[]> consumer = answersOf(broker).consumer()) {
            return consumer.listTopics().values().stream().flatMap(List::stream)
                    .map(one -> one.topic() + "-" + one.partition() + " " + one.leader()).collect(Collectors.toSet());
        }
    }

    private void onEachBroker(String wanted, Predicate<Consumer<byte[], byte[]>> isSo)
            throws InterruptedException {
        for (int broker : List.copyOf(alive)) {
            Supplier<Boolean> knows = () -> {
                try (Consumer<byte[], byte[]> consumer = answersOf(broker).consumer()) {
                    return isSo.test(consumer);
                } catch (UnknownTopicOrPartitionException error) {
                    return wanted.startsWith("no ");
                }
            };
            waitUntil(knows, "broker " + broker + " does not know of " + wanted);
        }
    }

    private static void waitUntil(Supplier<Boolean> isSo, String failure) throws InterruptedException {
        long end = System.nanoTime() + WAIT_SECONDS_MAX * 1_000_000_000L;
        while (!isSo.get()) {
            if (System.nanoTime() > end) {
                throw new AssertionError(failure + " after " + WAIT_SECONDS_MAX + " s");
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    /** One whose replicas are all away cannot have a leader, and Kafka's wait does not ask for it. */
    private static boolean hasLeader(PartitionInfo one) {
        return (one.leader() != null && one.leader().id() >= 0)
                || one.offlineReplicas().length == one.replicas().length;
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        Set<AccessControlEntry> wanted = new HashSet<>(entries);
        for (int number = 0; number < 2 * addresses.size(); number++) {
            waitUntil(() -> {
                try (Admin admin = admin()) {
                    return admin.describeAcls(filter).values().get().stream().map(AclBinding::entry)
                            .collect(Collectors.toSet()).equals(wanted);
                } catch (ExecutionException | InterruptedException error) {
                    return false;
                }
            }, "brokers do not have the access rights " + wanted);
        }
    }
}
