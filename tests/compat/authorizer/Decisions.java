// Feeds ACLs and questions to Apache Kafka's own StandardAuthorizer, and prints its decisions.
//
// Each line of the input has fields that are separated by tabs:
//   S super.users allow.everyone.if.no.acl.found            a new authorizer without ACLs
//   A type name pattern principal host operation permission  one ACL more
//   Q principal host operation type name                     may the principal do it? prints ALLOWED or DENIED
//   T principal host operation type                          may it do it to any resource of the type?

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

public class Decisions {
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "decisions"; }
        public int correlationId() { return 0; }
    }

    static Context context(String principal, String host) throws Exception {
        return new Context(SecurityUtils.parseKafkaPrincipal(principal), InetAddress.getByName(host));
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
        boolean loaded = false;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            if (f[0].equals("S")) {
                authorizer = new StandardAuthorizer();
                authorizer.configure(Map.of("super.users", f[1], "allow.everyone.if.no.acl.found", f[2]));
                authorizer.withPluginMetrics(new NoMetrics());
                acls = new LinkedHashMap<>();
                loaded = false;
                continue;
            }
            if (f[0].equals("A")) {
                acls.put(new Uuid(1, acls.size() + 1), new StandardAcl(
                    ResourceType.valueOf(f[1]), f[2], PatternType.valueOf(f[3]), f[4], f[5],
                    AclOperation.valueOf(f[6]), AclPermissionType.valueOf(f[7])));
                continue;
            }
            if (!loaded) {
                authorizer.loadSnapshot(acls);
                authorizer.completeInitialLoad();
                loaded = true;
            }
            var operation = AclOperation.valueOf(f[3]);
            var type = ResourceType.valueOf(f[4]);
            if (f[0].equals("Q")) {
                var pattern = new ResourcePattern(type, f[5], PatternType.LITERAL);
                var action = new Action(operation, pattern, 1, false, false);
                out.println(authorizer.authorize(context(f[1], f[2]), List.of(action)).get(0));
            } else {
                out.println(authorizer.authorizeByResourceType(context(f[1], f[2]), operation, type));
            }
        }
        out.flush();
    }

    static class NoMetrics implements PluginMetrics {
        public org.apache.kafka.common.MetricName metricName(String name, String description, java.util.LinkedHashMap<String, String> tags) {
            return new org.apache.kafka.common.MetricName(name, "plugins", description, tags);
        }
        public void addMetric(org.apache.kafka.common.MetricName name, org.apache.kafka.common.metrics.MetricValueProvider<?> value) { }
        public void removeMetric(org.apache.kafka.common.MetricName name) { }
        public org.apache.kafka.common.metrics.Sensor addSensor(String name) { return new Metrics().sensor(name); }
        public org.apache.kafka.common.metrics.Sensor addSensor(String name, org.apache.kafka.common.metrics.Sensor... parents) { return new Metrics().sensor(name); }
        public void removeSensor(String name) { }
        public org.apache.kafka.common.metrics.Sensor addSensor(String name, org.apache.kafka.common.metrics.Sensor.RecordingLevel level, org.apache.kafka.common.metrics.Sensor... parents) { return new Metrics().sensor(name); }
    }
}
