package odradek.foreign;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.test.ClusterInstance;

/** What one broker answers clients. Each question has a fresh client, whose first request is to that broker. */
final class BrokerAnswers {
    private final ClusterInstance cluster;
    private final Map<String, Object> server;

    BrokerAnswers(ClusterInstance cluster, String address) {
        this.cluster = cluster;
        this.server = Map.of("bootstrap.servers", address);
    }

    /** Nothing where it knows of no such topic. */
    List<PartitionInfo> partitions(String topic) {
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            return consumer.partitionsFor(topic);
        } catch (UnknownTopicOrPartitionException error) {
            return List.of();
        }
    }

    /** The brokers that it calls alive, as they listen to clients. */
    Collection<Node> brokers() {
        try (Admin admin = cluster.admin(server)) {
            return admin.describeCluster().nodes().get();
        } catch (ExecutionException | InterruptedException error) {
            throw new IllegalStateException("the broker at " + server + " does not say which are alive", error);
        }
    }

    Consumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = new HashMap<>(server);
        settings.put("group.protocol", "classic");
        settings.put("allow.auto.create.topics", "false");
        return cluster.consumer(settings);
    }
}
