package odradek.foreign;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.scalatest.Reporter;
import org.scalatest.Suite;
import org.scalatest.events.Event;
import org.scalatest.events.SuiteAborted;
import org.scalatest.events.TestCanceled;
import org.scalatest.events.TestFailed;
import org.scalatest.events.TestIgnored;
import org.scalatest.events.TestPending;
import org.scalatest.events.TestStarting;
import org.scalatest.events.TestSucceeded;
import org.scalatest.tools.Runner;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Runs ScalaTest's tests by name, as `Play` runs JUnit's: the same arguments, and the same lines of JSON.
 *
 * <p>A method is `class#name of the test`. ScalaTest knows no limit of time that is given from outside.
 */
public final class PlayScala implements Reporter {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TRACE_CHARACTERS_MAX = 6000;
    private static final PrintStream RESULTS = System.out;

    private final Map<String, Long> begun = new HashMap<>();

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        System.setOut(System.err);
        List<String> classes = Files.readAllLines(Path.of(arguments[1]));
        if (arguments[0].equals("run")) {
            Runner.run(asked(classes, Files.readAllLines(Path.of(arguments[2]))));
        } else {
            for (String name : classes) {
                list(name);
            }
        }
        RESULTS.flush();
        Runtime.getRuntime().halt(0);
    }

    /** A class that others extend may take arguments, and has no tests of its own. */
    private static void list(String name) throws ReflectiveOperationException {
        Class<?> kind = Class.forName(name);
        boolean isAlone = !Modifier.isAbstract(kind.getModifiers())
                && Arrays.stream(kind.getConstructors()).anyMatch(one -> one.getParameterCount() == 0);
        if (isAlone) {
            Suite suite = (Suite) kind.getDeclaredConstructor().newInstance();
            CollectionConverters.asJava(suite.testNames()).forEach(test -> write(Map.of("test", name + "#" + test)));
        }
    }

    private static String[] asked(List<String> classes, List<String> methods) {
        List<String> asked = new ArrayList<>(List.of("-P1", "-C", PlayScala.class.getName()));
        for (String name : classes) {
            asked.addAll(List.of("-s", name));
            methods.stream().filter(one -> one.startsWith(name + "#"))
                    .forEach(one -> asked.addAll(List.of("-t", one.substring(name.length() + 1))));
        }
        return asked.toArray(String[]::new);
    }

    @Override
    public synchronized void apply(Event event) {
        if (event instanceof TestStarting one) {
            begun.put(one.testName(), System.nanoTime());
            write(Map.of("test", named(one.suiteClassName(), one.testName()), "status", "STARTED"));
        } else if (event instanceof TestSucceeded one) {
            ended(one.suiteClassName(), one.testName(), "SUCCESSFUL", null, Option.empty());
        } else if (event instanceof TestFailed one) {
            ended(one.suiteClassName(), one.testName(), "FAILED", one.message(), one.throwable());
        } else if (event instanceof TestCanceled one) {
            ended(one.suiteClassName(), one.testName(), "ABORTED", one.message(), one.throwable());
        } else if (event instanceof TestPending one) {
            ended(one.suiteClassName(), one.testName(), "ABORTED", "it is not written yet", Option.empty());
        } else if (event instanceof TestIgnored one) {
            ended(one.suiteClassName(), one.testName(), "SKIPPED", "its authors leave it out", Option.empty());
        } else if (event instanceof SuiteAborted one) {
            ended(one.suiteClassName(), null, "FAILED", one.message(), one.throwable());
        }
    }

    private void ended(Option<String> suite, String test, String status, String message, Option<Throwable> error) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("test", named(suite, test));
        line.put("status", status);
        line.put("seconds", (System.nanoTime() - begun.getOrDefault(test, System.nanoTime())) / 10_000_000L / 100.0);
        if (message != null) {
            line.put("message", message);
        }
        if (error.isDefined()) {
            line.put("trace", trace(error.get()));
        }
        write(line);
    }

    private static String named(Option<String> suite, String test) {
        String name = suite.isDefined() ? suite.get() : "";
        return test == null ? name : name + "#" + test;
    }

    private static String trace(Throwable error) {
        StringWriter written = new StringWriter();
        error.printStackTrace(new PrintWriter(written));
        String all = written.toString();
        return all.substring(0, Math.min(all.length(), TRACE_CHARACTERS_MAX));
    }

    private static void write(Map<String, ?> line) {
        try {
            RESULTS.println(JSON.writeValueAsString(line));
            RESULTS.flush();
        } catch (JsonProcessingException error) {
            throw new UncheckedIOException(error);
        }
    }
}
