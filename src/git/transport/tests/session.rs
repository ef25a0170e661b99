//! The addresses that a session connects to.

use std::net::TcpListener;

use super::*;

fn session(egress: Egress) -> Arc<Session> {
    let remote = Remote::parse("https://git.example.com/a").unwrap();
    let transport = TransportLimits::default();
    let limits = SessionLimits { transport, egress, arrivals: &Arc::default() };
    Session::new(remote, Credentials::default(), limits, CancellationToken::new()).unwrap()
}

/// A DNS server may return different addresses each time, and several at once.
#[test]
fn a_name_never_leads_to_a_forbidden_address() {
    const NAME: &str = "git.example.com";
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let loopback = inside.local_addr().unwrap();
    let link: SocketAddr = "169.254.169.254:80".parse().unwrap();
    let private: SocketAddr = "10.0.0.1:443".parse().unwrap();
    let hosts = |loopback| Egress::Hosts { names: Vec::new(), loopback };
    for addresses in [vec![loopback], vec![link], vec![private], vec![link, private, loopback]] {
        let outside = session(hosts(false));
        let connected = outside.run(outside.connect_to(NAME, addresses.clone().into_iter()));
        let error = connected.unwrap_err();
        assert_eq!(error.reason(), "InvalidURL", "{addresses:?}: {error}");
    }
    assert!(inside.accept().is_err(), "somebody connected");

    let here = session(hosts(true));
    let connected = here.run(here.connect_to(NAME, [link, private, loopback].into_iter())).unwrap();
    assert_eq!(connected.peer_addr().unwrap(), loopback, "the address that was checked is the one");
    assert!(inside.accept().is_ok());
}

/// A hook or a proxy may print the headers of a request.
#[test]
fn an_error_of_a_server_shows_none_of_the_values_of_the_secret() {
    let data = [("password".to_owned(), k8s_openapi::ByteString(b"hunter22".to_vec()))].into();
    let limits = SessionLimits {
        transport: TransportLimits::default(),
        egress: Egress::Hosts { names: Vec::new(), loopback: false },
        arrivals: &Arc::default(),
    };
    let remote = Remote::parse("https://git.example.com/a").unwrap();
    let credentials = Credentials::from_secret(&data).unwrap();
    let session = Session::new(remote, credentials, limits, CancellationToken::new()).unwrap();
    let answers = [
        session.explain(&git2::Error::from_str("no access for hunter22")).to_string(),
        session.unreachable("no access for hunter22").to_string(),
    ];
    for answer in answers {
        assert!(answer.contains("no access for [redacted]"), "{answer}");
    }
}

/// The limit for a connection is shorter, and does not apply to the response.
#[test]
fn a_server_has_the_idle_time_to_respond_to_a_request() {
    let egress = Egress::Hosts { names: Vec::new(), loopback: false };
    let (connect, idle) = (Duration::from_secs(3600), Duration::ZERO);
    let transport = TransportLimits { connect, idle, ..TransportLimits::default() };
    let limits = SessionLimits { transport, egress, arrivals: &Arc::default() };
    let remote = Remote::parse("https://git.example.com/a").unwrap();
    let session = Session::new(remote, Credentials::default(), limits, CancellationToken::new()).unwrap();
    let error = session.run(std::future::pending::<Result<(), Error>>()).unwrap_err();
    assert!(error.to_string().contains("no response within 0 s"), "{error}");
}

#[test]
fn a_response_to_a_push_may_take_longer_than_one_to_a_fetch() {
    let mut session = session(Egress::Hosts { names: Vec::new(), loopback: false });
    let limits = &mut Arc::get_mut(&mut session).unwrap().limits;
    (limits.connect, limits.idle) = (Duration::ZERO, Duration::ZERO);
    let slow_hook = async {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(())
    };
    assert!(session.wait_for_answer(true, slow_hook).is_ok());
    let slow_pack = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    };
    let error = session.wait_for_answer(false, slow_pack).unwrap_err();
    assert!(error.to_string().contains("it has sent nothing for"), "{error}");
}
