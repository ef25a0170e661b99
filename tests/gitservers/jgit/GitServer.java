import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.apache.sshd.common.keyprovider.FileKeyPairProvider;
import org.apache.sshd.server.SshServer;
import org.apache.sshd.server.command.AbstractCommandSupport;
import org.apache.sshd.server.config.keys.AuthorizedKeysAuthenticator;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.SecureRequestCustomizer;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.ssl.SslContextFactory;
import org.eclipse.jgit.http.server.GitServlet;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.transport.ReceivePack;
import org.eclipse.jgit.transport.UploadPack;

/** Serves DIRECTORY/config.git with JGit: GitServer DIRECTORY HTTPS_PORT SSH_PORT LOGIN. */
final class GitServer {
    public static void main(String[] args) throws Exception {
        var directory = Path.of(args[0]);
        var login = "Basic " + Base64.getEncoder().encodeToString(args[3].getBytes(StandardCharsets.UTF_8));
        https(directory, Integer.parseInt(args[1]), login);
        ssh(directory, Integer.parseInt(args[2]));
        Thread.currentThread().join();
    }

    private static Repository open(Path directory) throws IOException {
        return new FileRepositoryBuilder().setGitDir(directory.resolve("config.git").toFile()).setMustExist(true).build();
    }

    /** Refuses every push while the repository has a file `refuse`, with its text as the reason. JGit runs no hooks from disk. */
    private static ReceivePack receivePack(Repository repository) {
        var receive = new ReceivePack(repository);
        receive.setPreReceiveHook((pack, commands) -> {
            try {
                var reason = Files.readString(repository.getDirectory().toPath().resolve("refuse")).strip();
                for (var command : commands) {
                    command.setResult(ReceiveCommand.Result.REJECTED_OTHER_REASON, reason);
                }
            } catch (IOException absent) {
                return;
            }
        });
        return receive;
    }

    private static void https(Path directory, int port, String login) throws Exception {
        var servlet = new GitServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response) throws jakarta.servlet.ServletException, IOException {
                if (login.equals(request.getHeader("Authorization"))) {
                    super.service(request, response);
                } else {
                    response.setHeader("WWW-Authenticate", "Basic realm=\"git\"");
                    response.sendError(HttpServletResponse.SC_UNAUTHORIZED);
                }
            }
        };
        servlet.setRepositoryResolver((request, name) -> {
            try {
                return open(directory);
            } catch (IOException e) {
                throw new org.eclipse.jgit.errors.RepositoryNotFoundException(name, e);
            }
        });
        servlet.setReceivePackFactory((request, repository) -> receivePack(repository));
        var context = new ServletContextHandler();
        context.addServlet(new ServletHolder(servlet), "/*");
        var tls = new SslContextFactory.Server();
        tls.setKeyStorePath(directory.resolve("tls.p12").toString());
        tls.setKeyStorePassword("password");
        var http = new HttpConfiguration();
        http.addCustomizer(new SecureRequestCustomizer(false));
        var server = new Server();
        var connector = new ServerConnector(server, tls, new HttpConnectionFactory(http));
        connector.setHost("127.0.0.1");
        connector.setPort(port);
        server.addConnector(connector);
        server.setHandler(context);
        server.start();
    }

    private static void ssh(Path directory, int port) throws IOException {
        var server = SshServer.setUpDefaultServer();
        server.setHost("127.0.0.1");
        server.setPort(port);
        server.setKeyPairProvider(new FileKeyPairProvider(directory.resolve("host")));
        server.setPublickeyAuthenticator(new AuthorizedKeysAuthenticator(directory.resolve("authorized_keys")));
        server.setCommandFactory((channel, command) -> new AbstractCommandSupport(command, null) {
            @Override
            public void run() {
                try (var repository = open(directory)) {
                    if (command.startsWith("git-upload-pack ")) {
                        new UploadPack(repository).upload(getInputStream(), getOutputStream(), getErrorStream());
                    } else {
                        receivePack(repository).receive(getInputStream(), getOutputStream(), getErrorStream());
                    }
                    onExit(0);
                } catch (IOException e) {
                    onExit(128, e.toString());
                }
            }
        });
        server.start();
    }
}
