package odradek.foreign;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.types.Password;

/** A broker's settings as a test has them, which are objects, written for a file of properties. */
public final class ServerSettings {
    private ServerSettings() {
    }

    public static Map<String, String> written(Map<String, ?> settings) {
        Map<String, String> texts = new TreeMap<>();
        settings.forEach((name, value) -> texts.put(name, text(value)));
        // The stores that tests make are of Java's own form, which only Java reads.
        if (texts.containsKey("ssl.keystore.location")) {
            convert(texts, "ssl.keystore");
        }
        if (texts.containsKey("ssl.truststore.location")) {
            convert(texts, "ssl.truststore");
        }
        return texts;
    }

    private static String text(Object value) {
        if (value instanceof List<?> words) {
            return words.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
        return value instanceof Password password ? password.value() : String.valueOf(value);
    }

    /** Have a copy of a store as PKCS#12, in which keys have the password of the store. */
    private static void convert(Map<String, String> settings, String name) {
        File store = new File(settings.get(name + ".location"));
        char[] password = settings.get(name + ".password").toCharArray();
        File copy = new File(store.getPath() + ".p12");
        try {
            KeyStore from = KeyStore.getInstance(store, password);
            KeyStore to = KeyStore.getInstance("PKCS12");
            to.load(null, password);
            for (String alias : Collections.list(from.aliases())) {
                if (from.isKeyEntry(alias)) {
                    Key key = from.getKey(alias, settings.get("ssl.key.password").toCharArray());
                    to.setKeyEntry(alias, key, password, from.getCertificateChain(alias));
                    settings.put("ssl.key.password", new String(password));
                } else {
                    to.setCertificateEntry(alias, from.getCertificate(alias));
                }
            }
            try (OutputStream written = Files.newOutputStream(copy.toPath())) {
                to.store(written, password);
            }
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalStateException(store + " cannot be copied", error);
        }
        settings.put(name + ".location", copy.getPath());
        settings.put(name + ".type", "PKCS12");
        copy.deleteOnExit();
    }
}
