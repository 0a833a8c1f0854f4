package org.apache.kafka.common.test;

import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import kafka.server.BrokerServer;
import odradek.foreign.OdradekCluster;
import odradek.foreign.ServerSettings;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.utils.Utils;

/**
 * Stands before Kafka's class of this name on the class path, and has what Streams' and Connect's tests ask of it.
 *
 * <p>They hold it by an `EmbeddedKafkaCluster` of their own, which does all else through clients.
 */
public final class KafkaClusterTestKit implements AutoCloseable {
    private final TestKitNodes nodes;
    private final OdradekCluster cluster;
    private final MockFaultHandler faults = new MockFaultHandler("faults of processes are in their logs");

    private KafkaClusterTestKit(TestKitNodes nodes, OdradekCluster cluster) {
        this.nodes = nodes;
        this.cluster = cluster;
    }

    public void format() {
        // A process formats its directories when it starts.
    }

    public void startup() {
        cluster.start();
    }

    /** A broker is ready when it has started, but others may not know it yet. */
    public void waitForReadyBrokers() throws InterruptedException {
        if (nodes.brokerNodes().size() > 1) {
            cluster.waitForReadyBrokers();
        }
    }

    public String bootstrapServers() {
        return cluster.bootstrapServers();
    }

    public Map<Integer, BrokerServer> brokers() {
        return cluster.servers();
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() throws IOException {
        cluster.stop();
        Utils.delete(new File(nodes.baseDirectory()));
    }

    public static final class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> settings = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String name, Object value) {
            settings.put(name, value);
            return this;
        }

        public KafkaClusterTestKit build() {
            Map<Integer, Map<String, String>> own = new HashMap<>();
            nodes.brokerNodes().forEach((id, node) -> own.put(id, node.propertyOverrides()));
            ClusterConfig config = ClusterConfig.defaultBuilder()
                    .setBrokers(nodes.brokerNodes().size())
                    .setControllers(nodes.controllerNodes().size())
                    .setBrokerListenerName(nodes.brokerListenerName())
                    .setBrokerSecurityProtocol(nodes.brokerListenerProtocol())
                    .setServerProperties(ServerSettings.written(settings))
                    .setPerServerProperties(own)
                    .build();
            return new KafkaClusterTestKit(nodes, new OdradekCluster(config, false));
        }
    }
}
