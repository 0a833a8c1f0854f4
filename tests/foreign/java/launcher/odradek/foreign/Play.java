package odradek.foreign;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Exit;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherConfig;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.opentest4j.TestAbortedException;

/**
 * Runs JUnit's tests by name: `Play list CLASSES`, or `Play run CLASSES METHODS SECONDS`.
 *
 * <p>CLASSES and METHODS are files with a name a line; a method is `class#method`. Standard output gets a line of JSON for
 * each test method (list), or for each test that has begun or ended (run). What tests print goes to standard error.
 */
public final class Play implements TestExecutionListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TRACE_CHARACTERS_MAX = 6000;

    private final PrintStream results;
    private final Map<String, Long> begun = new ConcurrentHashMap<>();

    private Play(PrintStream results) {
        this.results = results;
    }

    public static void main(String[] arguments) throws IOException {
        List<DiscoverySelector> classes = Files.readAllLines(Path.of(arguments[1])).stream()
                .map(name -> (DiscoverySelector) DiscoverySelectors.selectClass(name)).toList();
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request().selectors(classes)
                .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true");
        boolean runs = arguments[0].equals("run");
        if (runs) {
            List<String> methods = Files.readAllLines(Path.of(arguments[2]));
            request.filters((PostDiscoveryFilter) one -> FilterResult.includedIf(
                    one.getSource().filter(MethodSource.class::isInstance).map(Play::name)
                            .map(methods::contains).orElse(true)));
            for (String kind : List.of("test", "testtemplate", "testfactory")) {
                request.configurationParameter("junit.jupiter.execution.timeout." + kind + ".method.default",
                        arguments[3] + " s");
            }
        }
        LauncherDiscoveryRequest built = request.build();
        // Kafka's own filter leaves out tests that it calls flaky or new.
        Launcher launcher = LauncherFactory.create(LauncherConfig.builder()
                .enablePostDiscoveryFilterAutoRegistration(false).build());
        Play play = new Play(System.out);
        System.setOut(System.err);
        if (runs) {
            launcher.execute(built, play);
        } else {
            play.list(launcher.discover(built));
        }
        // Clients that a failed test left open keep threads, which keep the process.
        Runtime.getRuntime().halt(0);
    }

    private void list(TestPlan plan) {
        for (TestIdentifier root : plan.getRoots()) {
            plan.getDescendants(root).stream().flatMap(one -> one.getSource().stream())
                    .filter(MethodSource.class::isInstance).map(Play::name).distinct()
                    .forEach(name -> write(Map.of("test", name)));
        }
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        begun.put(test.getUniqueId(), System.nanoTime());
        if (test.isTest()) {
            // A tool that ends its process would end all tests. A test may set its own, and takes it back.
            Exit.setExitProcedure((code, message) -> {
                throw new IllegalStateException("the tool ended with " + code + (message == null ? "" : ": " + message));
            });
            write(Map.of("test", named(test), "status", "STARTED"));
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean isFailed = result.getStatus() != TestExecutionResult.Status.SUCCESSFUL;
        if (test.isTest() || isFailed) {
            double seconds = (System.nanoTime() - begun.getOrDefault(test.getUniqueId(), System.nanoTime())) / 1e9;
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("test", named(test));
            line.put("display", test.getDisplayName());
            boolean isAborted = result.getThrowable().map(Play::isAborted).orElse(false);
            line.put("status", isAborted ? "ABORTED" : result.getStatus().name());
            line.put("seconds", Math.round(seconds * 100) / 100.0);
            result.getThrowable().ifPresent(error -> {
                line.put("message", String.valueOf(error));
                line.put("trace", trace(error));
            });
            write(line);
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        write(Map.of("test", named(test), "status", "SKIPPED", "message", reason));
    }

    /** Some assertions wrap what they get, also what aborts a test. */
    private static boolean isAborted(Throwable error) {
        for (Throwable one = error; one != null; one = one.getCause()) {
            if (one instanceof TestAbortedException) {
                return true;
            }
        }
        return false;
    }

    private static String trace(Throwable error) {
        StringWriter written = new StringWriter();
        error.printStackTrace(new PrintWriter(written));
        String all = written.toString();
        return all.substring(0, Math.min(all.length(), TRACE_CHARACTERS_MAX));
    }

    private static String named(TestIdentifier test) {
        return test.getSource().map(Play::name).orElse(test.getDisplayName());
    }

    private static String name(TestSource source) {
        if (source instanceof MethodSource method) {
            return method.getClassName() + "#" + method.getMethodName();
        }
        return source instanceof ClassSource of ? of.getClassName() : source.toString();
    }

    private synchronized void write(Map<String, ?> line) {
        try {
            results.println(JSON.writeValueAsString(line));
            results.flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
