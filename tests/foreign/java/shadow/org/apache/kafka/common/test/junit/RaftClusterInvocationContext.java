package org.apache.kafka.common.test.junit;

import java.util.List;
import odradek.foreign.OdradekCluster;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/**
 * Stands before Kafka's class of this name on the class path, and gives a test a cluster of Odradek.
 *
 * <p>Kafka asks the same question of brokers with and without a controller inside. One answer is enough here.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "] " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OdradekCluster cluster = new OdradekCluster(config, isCombined);
        if (isCombined && config.clusterTypes().contains(Type.KRAFT)) {
            // JUnit makes the test's object, which takes a cluster, before it asks.
            return List.of(new ClusterInstanceParameterResolver(cluster),
                    (ExecutionCondition) context -> ConditionEvaluationResult.disabled(
                            "the same as with controllers of their own"));
        }
        return List.of(
                (BeforeEachCallback) context -> {
                    if (config.isAutoStart()) {
                        cluster.start();
                    }
                },
                (AfterTestExecutionCallback) context -> cluster.stop(),
                (AfterEachCallback) context -> cluster.stop(),
                new ClusterInstanceParameterResolver(cluster));
    }
}
