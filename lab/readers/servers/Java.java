// The readers of Java: java -cp 'JARS/*' Java.java READER PORT. See node.js.
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

public class Java {
    /** Answers what was read. It is mapped to a route of its own, or to all others. */
    static class Reader extends HttpServlet {
        final String route;

        Reader(String route) {
            this.route = route;
        }

        @Override
        protected void doGet(HttpServletRequest q, HttpServletResponse s) throws IOException {
            List<String> keys = new ArrayList<>(), accounts = new ArrayList<>();
            String header = q.getHeader("X-Api-Key");
            if (header != null) keys.add(header);
            add(keys, q, "api_key");
            add(accounts, q, "account");
            String chosen = route;
            if (chosen.equals("rest")) {
                String[] at = (q.getServletPath() + (q.getPathInfo() == null ? "" : q.getPathInfo())).substring(1).split("/");
                if (at.length == 2 && at[1].equals("open")) chosen = "open";
            }
            s.setContentType("application/json");
            s.setCharacterEncoding("UTF-8");
            s.getWriter().print("{\"route\":" + quote(chosen) + ",\"keys\":" + list(keys) + ",\"accounts\":" + list(accounts) + "}");
        }

        static void add(List<String> to, HttpServletRequest q, String name) {
            String[] values = q.getParameterValues(name);
            if (values != null) to.addAll(Arrays.asList(values));
            Cookie[] cookies = q.getCookies();
            if (cookies != null) for (Cookie c : cookies) if (c.getName().equals(name)) to.add(c.getValue());
        }

        static String list(List<String> texts) {
            return texts.stream().map(Reader::quote).collect(Collectors.joining(",", "[", "]"));
        }

        static String quote(String s) {
            StringBuilder b = new StringBuilder("\"");
            for (char c : s.toCharArray()) b.append(String.format("\\u%04x", (int) c));
            return b.append('"').toString();
        }
    }

    static final String[][] ROUTES = {
        {"health", "/health"}, {"health", "/health/"}, {"graphql", "/graphql/*"}, {"static", "/static/*"}, {"admin", "/admin/*"}, {"rest", "/"},
    };

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        if (args[0].equals("jetty")) {
            Server server = new Server(new InetSocketAddress("127.0.0.1", port));
            ServletContextHandler context = new ServletContextHandler("/");
            for (String[] r : ROUTES) context.addServlet(new ServletHolder(new Reader(r[0])), r[1]);
            server.setHandler(context);
            server.start();
            server.join();
            return;
        }
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(Files.createTempDirectory("tomcat").toString());
        tomcat.setPort(port);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", new File(".").getAbsolutePath());
        int n = 0;
        for (String[] r : ROUTES) {
            String name = "reader" + n++;
            Tomcat.addServlet(context, name, new Reader(r[0]));
            context.addServletMappingDecoded(r[1], name);
        }
        tomcat.start();
        tomcat.getServer().await();
    }
}
