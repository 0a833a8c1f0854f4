package odradek.foreign;

import java.io.File;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import kafka.cluster.Partition;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.opentest4j.TestAbortedException;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands for objects inside Kafka's broker, for what its files on disk and its clients tell as well. Where a test asks
 * for anything else, it is aborted.
 *
 * <p>Classes and types of results change from version to version, so both are taken from the methods that are called.
 */
final class StandIns {
    private final int id;
    private final List<String> directories;
    private final ListenerName listener;
    private final BrokerAnswers answers;

    /** `directories` are those of the broker's logs, and `answers` are those at the listener. */
    StandIns(int id, List<String> directories, ListenerName listener, BrokerAnswers answers) {
        this.id = id;
        this.directories = directories;
        this.listener = listener;
        this.answers = answers;
    }

    /** What the broker gives for one of its objects. */
    Object of(Method asked) {
        String name = asked.getName();
        return switch (name) {
            case "config" -> standIn(name, asked.getReturnType(), call -> switch (call.getMethod().getName()) {
                case "logDirs" -> inTypeOf(call, directories);
                case "brokerId", "nodeId" -> id;
                default -> throw inside(name, call);
            });
            case "logManager" -> standIn(name, asked.getReturnType(), call -> switch (call.getMethod().getName()) {
                case "liveLogDirs" -> inTypeOf(call, directories.stream().map(File::new).toList());
                case "getLog" -> optional(call, hasLog(call.getArgument(0)), UnifiedLog.class, this::nothing);
                default -> throw inside(name, call);
            });
            case "replicaManager" -> standIn(name, asked.getReturnType(), call -> switch (call.getMethod().getName()) {
                case "onlinePartition" -> {
                    TopicPartition partition = call.getArgument(0);
                    yield optional(call, hasLog(partition), Partition.class, of -> switch (of.getMethod().getName()) {
                        case "leaderIdIfLocal" -> Option.apply(leads(partition) ? id : null);
                        case "leaderLogIfLocal" -> optional(of, leads(partition), UnifiedLog.class, this::nothing);
                        default -> throw inside(name, of);
                    });
                }
                default -> throw inside(name, call);
            });
            case "metadataCache" -> standIn(name, asked.getReturnType(), call -> switch (call.getMethod().getName()) {
                case "numPartitions" -> Optional.of(answers.partitions(call.getArgument(0)).size())
                        .filter(count -> count > 0);
                case "getLeaderAndIsr" -> find(new TopicPartition(call.getArgument(0), call.getArgument(1)))
                        .map(one -> new LeaderAndIsr(leader(one), ids(one.inSyncReplicas())));
                case "getAliveBrokerNodes" -> {
                    // A broker answers clients of their own listener only.
                    if (!listener.equals(call.getArgument(0))) {
                        throw inside(name, call);
                    }
                    yield List.copyOf(answers.brokers());
                }
                default -> throw inside(name, call);
            });
            default -> throw inside("broker: " + name);
        };
    }

    static TestAbortedException inside(String what) {
        return new TestAbortedException("reaches an object inside Kafka's " + what);
    }

    private static TestAbortedException inside(String object, InvocationOnMock call) {
        return inside("broker: " + object + "." + call.getMethod().getName());
    }

    private Object nothing(InvocationOnMock call) {
        throw inside("log", call);
    }

    static <T> T standIn(String name, Class<T> kind, Function<InvocationOnMock, Object> answer) {
        return Mockito.mock(kind, Mockito.withSettings().name(name).stubOnly().defaultAnswer(call ->
                call.getMethod().getDeclaringClass() == Object.class
                        ? Mockito.RETURNS_DEFAULTS.answer(call) : answer.apply(call)));
    }

    private static Object inTypeOf(InvocationOnMock call, List<?> values) {
        return List.class.isAssignableFrom(call.getMethod().getReturnType())
                ? values : CollectionConverters.asScala(values).toSeq();
    }

    private static <T> Object optional(
            InvocationOnMock call, boolean isThere, Class<T> kind, Function<InvocationOnMock, Object> answer) {
        T found = isThere ? standIn(kind.getSimpleName(), kind, answer) : null;
        return call.getMethod().getReturnType() == Option.class ? Option.apply(found) : Optional.ofNullable(found);
    }

    private Optional<PartitionInfo> find(TopicPartition wanted) {
        return answers.partitions(wanted.topic()).stream()
                .filter(one -> one.partition() == wanted.partition()).findFirst();
    }

    private static List<Integer> ids(Node[] brokers) {
        return Arrays.stream(brokers).map(Node::id).toList();
    }

    private static int leader(PartitionInfo one) {
        return one.leader() == null ? LeaderAndIsr.NO_LEADER : one.leader().id();
    }

    private boolean leads(TopicPartition partition) {
        return find(partition).filter(one -> leader(one) == id).isPresent();
    }

    private boolean hasLog(TopicPartition partition) {
        return directories.stream().anyMatch(directory -> new File(directory, partition.toString()).isDirectory());
    }
}
