package odradek.foreign;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** A connection to the process that starts brokers. A request and its answer are a line of JSON each. */
public final class Keeper implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Socket socket;
    private final BufferedReader answers;

    public Keeper() {
        try {
            socket = new Socket("127.0.0.1", Integer.getInteger("odradek.keeper.port"));
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public synchronized JsonNode ask(Map<String, ?> request) {
        try {
            socket.getOutputStream().write((JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.UTF_8));
            String line = answers.readLine();
            if (line == null) {
                throw new IOException("the process that starts brokers has ended");
            }
            JsonNode answer = JSON.readTree(line);
            if (answer.has("error")) {
                throw new IllegalStateException(answer.get("error").asText());
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Brokers of this connection end with it; it waits for their end, as a stop of Kafka's cluster does. */
    @Override
    public void close() {
        try (socket) {
            socket.shutdownOutput();
            answers.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
