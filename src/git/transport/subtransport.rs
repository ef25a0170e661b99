//! The transports that libgit2 calls.

use std::io;
use std::sync::{Arc, Once};

use git2::transport::{
    Service, SmartSubtransport, SmartSubtransportStream, Transport, register as register_transport,
};
use git2::{Error as Git2Error, ErrorClass, ErrorCode};

use super::duplex::{Duplex, Wire};
use super::http::Exchange;
use super::pack::PackReader;
use super::{Session, daemon, ssh};

pub(in crate::git) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (scheme, rpc) in [("https", true), ("http", true), ("ssh", false), ("git", false)] {
            // A scheme can be registered once, and this only fails without memory. libgit2 then has no
            // transport for the scheme.
            #[expect(
                unsafe_code,
                reason = "changes a C table; `Once` runs it before any other call of ours into libgit2"
            )]
            let _ = unsafe {
                register_transport(scheme, move |remote| {
                    let session = Session::current().ok_or_else(|| Git2Error::from_str("no session"))?;
                    Transport::smart(remote, rpc, Connections { session, scheme })
                })
            };
        }
    });
}

/// Opens the connections of a session.
struct Connections {
    session: Arc<Session>,
    scheme: &'static str,
}

impl SmartSubtransport for Connections {
    /// Starts an exchange. With https, each is a separate request. ssh and git use one stream for both halves
    /// of an operation.
    fn action(&self, _: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, Git2Error> {
        let session = Arc::clone(&self.session);
        let command = match service {
            Service::UploadPackLs | Service::UploadPack => "git-upload-pack",
            Service::ReceivePackLs | Service::ReceivePack => "git-receive-pack",
        };
        let failed =
            |error: io::Error| Git2Error::new(ErrorCode::GenericError, ErrorClass::Net, error.to_string());
        let wire = match self.scheme {
            "ssh" => ssh::private_key(&self.session)
                .map_err(|failure| self.session.fail(failure))
                .and_then(|key| self.session.wait_to_connect(ssh::connect(&self.session, command, key)))
                .map(Wire::Ssh),
            "git" => self.session.wait_to_connect(daemon::connect(&self.session, command)).map(Wire::Tcp),
            _ => return Ok(Box::new(Exchange::new(session, service, command))),
        };
        let answer = match service {
            Service::UploadPackLs | Service::UploadPack => Some(PackReader::new()),
            Service::ReceivePackLs | Service::ReceivePack => None,
        };
        Ok(Box::new(Duplex::new(session, wire.map_err(failed)?, answer)))
    }

    fn close(&self) -> Result<(), Git2Error> {
        Ok(())
    }
}
