// Reads first messages of SCRAM, one in base64 on each line, with Apache Kafka's own parser.
// Prints the name of each in base64, or a dash for a message that is refused.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMessages;

public class ScramNames {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                var message = new ScramMessages.ClientFirstMessage(Base64.getDecoder().decode(line));
                String name = ScramFormatter.username(message.saslName());
                System.out.println(Base64.getEncoder().encodeToString(name.getBytes(StandardCharsets.UTF_8)));
            } catch (SaslException | IllegalArgumentException refused) {
                System.out.println("-");
            }
        }
    }
}
