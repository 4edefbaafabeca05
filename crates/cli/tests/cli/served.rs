//! A server for tests, and connections to it over sockets.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A connection that is kept alive.
pub(crate) struct Connection {
    socket: BufReader<TcpStream>,
    /// What was asked last has an answer without a body.
    is_head: bool,
}

impl Connection {
    pub(crate) fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        Connection { socket: BufReader::new(stream), is_head: false }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[&str], body: &str) {
        self.send_bytes(method, path, headers, body.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) {
        self.is_head = method == "HEAD";
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        let host = if has_host { "" } else { "Host: localhost\r\n" };
        let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{more}Content-Length: {}\r\n\r\n", body.len());
        self.socket.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// What comes until the connection ends, in whatever way.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // An error: the connection was reset.
        let _ = self.socket.read_to_end(&mut bytes);
        bytes
    }

    /// Status, head and body. The body ends where its framing says, not where the connection does.
    pub(crate) fn answer(&mut self) -> (u16, String, String) {
        let (status, head, body) = self.raw_answer();
        (status, head, String::from_utf8(body).unwrap())
    }

    pub(crate) fn raw_answer(&mut self) -> (u16, String, Vec<u8>) {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut head = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => head += &(line.to_lowercase() + "\n"),
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|n| n.parse().unwrap());
        let body = match length {
            _ if self.is_head => Vec::new(),
            Some(length) => self.bytes(length),
            None => {
                assert!(head.contains("transfer-encoding: chunked"), "{head}");
                let mut body = Vec::new();
                loop {
                    let length = usize::from_str_radix(&self.line(), 16).unwrap();
                    body.extend(self.bytes(length));
                    self.line();
                    if length == 0 {
                        break body;
                    }
                }
            }
        };
        (status, head, body)
    }
}

/// A server, for as long as this lives.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn begin(folder: &Path, model: &str) -> Self {
        Served::with(folder, model, &[])
    }

    pub(crate) fn with(folder: &Path, model: &str, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
        command.args(["serve", model, "--port", "0", "--backend", "cpu"]).args(options).current_dir(folder);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let place = |line: String| Some(line.strip_prefix("listening at http://")?.split_once("/v1")?.0.to_owned());
        let address = said.by_ref().map_while(Result::ok).find_map(place).expect("it listens");
        // What it says of refusals needs a reader.
        std::thread::spawn(move || said.for_each(drop));
        Served { child, address }
    }

    /// Status and body, over a connection that stays open for more requests.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut connection = Connection::to(&self.address);
        connection.send(method, path, &[], body);
        let (status, _, body) = connection.answer();
        (status, body)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// The events of a stream, but for the last, which says that it is the last.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        let mut events: Vec<&str> =
            answer.split_terminator("\n\n").map(|e| e.strip_prefix("data: ").unwrap()).collect();
        assert_eq!((status, events.pop()), (200, Some("[DONE]")));
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}
