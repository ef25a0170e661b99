//! An HTTP server that records requests and returns prepared responses.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// The server. Its thread ends after its last response.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Recorder {
    /// Starts a server that returns one response after the other: a status line, headers and a body.
    pub(crate) fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for answer in answers {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                let mut request = RecordedRequest::default();
                stream.read_line(&mut request.line).unwrap();
                request.line = request.line.trim_end().to_owned();
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).unwrap();
                    let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                    request.headers.insert(name.to_ascii_lowercase(), value.to_owned());
                }
                let length =
                    request.headers.get("content-length").map_or(0, |length| length.parse().unwrap());
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                request.body = String::from_utf8(body).unwrap();
                log.lock().unwrap().push(request);
                let (head, body) = answer.split_once("\n\n").unwrap_or((&answer, ""));
                let head = head.replace('\n', "\r\n");
                let length = body.len();
                // A client may disconnect early.
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        Self { address, seen }
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap().clone()
    }
}
