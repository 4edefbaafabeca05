//! Clients that connect, stall, send half a request, hang up in the middle, flood, and send what is no request.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest stall, beyond the server's patience.
const LONGEST_STALL: Duration = Duration::from_secs(40);

/// Pause between two looks whether the test ends.
const LOOK: Duration = Duration::from_millis(200);

type Misdeed = fn(&mut TcpStream, &mut Client<'_>) -> io::Result<()>;

/// A kind of misdeed.
struct Kind {
    name: &'static str,
    /// How many of a hundred are of it.
    share: u32,
    /// Whether the model works for it. There are few of these: they are work that the server may do.
    asks_model: bool,
    act: Misdeed,
}

const KINDS: [Kind; 9] = [
    Kind { name: "connect and stall", share: 26, asks_model: false, act: stall },
    Kind { name: "half a head", share: 16, asks_model: false, act: half_head },
    Kind { name: "half a body", share: 16, asks_model: false, act: half_body },
    Kind { name: "hang up in a stream", share: 6, asks_model: true, act: leave_stream },
    Kind { name: "hang up before an answer", share: 4, asks_model: true, act: leave_prefill },
    Kind { name: "take no bytes", share: 10, asks_model: false, act: take_nothing },
    Kind { name: "flood", share: 4, asks_model: true, act: flood },
    Kind { name: "no HTTP", share: 10, asks_model: false, act: garbage },
    Kind { name: "wrong requests", share: 8, asks_model: false, act: wrong },
];

/// How often each kind was done.
#[derive(Default)]
pub(super) struct Misdeeds([AtomicU64; KINDS.len()]);

impl Misdeeds {
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl fmt::Display for Misdeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each =
            KINDS.iter().zip(&self.0).map(|(kind, count)| format!("{} {}", count.load(Ordering::Relaxed), kind.name));
        write!(f, "{}", each.collect::<Vec<_>>().join(", "))
    }
}

/// One client.
struct Client<'a> {
    random: fastrand::Rng,
    ends: &'a AtomicBool,
}

impl Client<'_> {
    /// Does nothing for a while, or until the test ends.
    fn idle(&mut self, most: Duration) {
        let until = Instant::now() + most.mul_f64(self.random.f64());
        while Instant::now() < until && !self.ends.load(Ordering::Relaxed) {
            sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// Misbehaves until the test ends; `spares_model` leaves out what the model works for.
pub(super) fn misbehave(
    address: &str,
    random: fastrand::Rng,
    spares_model: bool,
    ends: &AtomicBool,
    misdeeds: &Misdeeds,
) {
    let mut client = Client { random, ends };
    let drawn: Vec<usize> = (0..KINDS.len())
        .filter(|kind| !(spares_model && KINDS[*kind].asks_model))
        .flat_map(|kind| std::iter::repeat_n(kind, KINDS[kind].share as usize))
        .collect();
    // Not all in the first moment.
    client.idle(Duration::from_secs(5));
    while !ends.load(Ordering::Relaxed) {
        let kind = drawn[client.random.usize(..drawn.len())];
        let Ok(mut stream) = TcpStream::connect(address) else {
            sleep(LOOK);
            continue;
        };
        let _ = stream.set_read_timeout(Some(LONGEST_STALL));
        let _ = stream.set_write_timeout(Some(LONGEST_STALL));
        // An error: the server has cut it off, as it should.
        let _ = (KINDS[kind].act)(&mut stream, &mut client);
        misdeeds.0[kind].fetch_add(1, Ordering::Relaxed);
        client.idle(Duration::from_secs(2));
    }
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn stall(_: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    client.idle(LONGEST_STALL);
    Ok(())
}

fn half_head(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-A: ";
    stream.write_all(&head[..client.random.usize(1..head.len())])?;
    client.idle(LONGEST_STALL);
    Ok(())
}

fn half_body(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let length = client.random.usize(1..8 << 20);
    let head =
        format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{{\"prompt\": \"");
    stream.write_all(head.as_bytes())?;
    let some = vec![b'a'; client.random.usize(0..length.min(256 << 10))];
    stream.write_all(&some)?;
    client.idle(LONGEST_STALL);
    Ok(())
}

fn leave_stream(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let body = r#"{"messages": [{"role": "user", "content": "Write a book."}], "max_tokens": 30000, "stream": true}"#;
    stream.write_all(post("/v1/chat/completions", body).as_bytes())?;
    let mut some = vec![0; client.random.usize(1..2000)];
    stream.read_exact(&mut some)?;
    if client.random.bool() {
        stream.shutdown(Shutdown::Both)?;
    }
    Ok(())
}

fn leave_prefill(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let text = "A goose swims. ".repeat(client.random.usize(1..100));
    let stream_it = client.random.bool();
    let body = format!(r#"{{"prompt": "{text}", "max_tokens": 1000, "stream": {stream_it}}}"#);
    stream.write_all(post("/v1/completions", &body).as_bytes())?;
    client.idle(Duration::from_millis(500));
    Ok(())
}

fn take_nothing(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let requests = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(300);
    stream.write_all(requests.as_bytes())?;
    client.idle(LONGEST_STALL);
    Ok(())
}

fn flood(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let texts = client.random.usize(1..8);
    let one = post("/v1/completions", r#"{"prompt": "honk", "max_tokens": 2}"#);
    let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(client.random.usize(1..100));
    stream.write_all((one.repeat(texts) + &metrics).as_bytes())?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut taken = vec![0; 64 << 10];
    while stream.read(&mut taken)? > 0 && !client.ends.load(Ordering::Relaxed) {}
    Ok(())
}

fn garbage(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let bytes: Vec<u8> = (0..client.random.usize(1..100 << 10)).map(|_| client.random.u8(..)).collect();
    stream.write_all(&bytes)?;
    let mut answer = [0; 64];
    stream.read(&mut answer).map(drop)
}

fn wrong(stream: &mut TcpStream, client: &mut Client<'_>) -> io::Result<()> {
    let bodies = ["", "{", "[]", r#"{"prompt": 1}"#, r#"{"prompt": "a", "honk": 1}"#, r#"{"contents": [], "n": -1}"#];
    let paths = ["/v1/completions", "/v1/chat/completions", "/v1/states", "/v1/embeddings", "/v1/tokens/count", "/x"];
    for _ in 0..client.random.usize(1..20) {
        let (path, body) = (paths[client.random.usize(..paths.len())], bodies[client.random.usize(..bodies.len())]);
        stream.write_all(post(path, body).as_bytes())?;
        let mut answer = [0; 1024];
        if stream.read(&mut answer)? == 0 {
            break;
        }
    }
    Ok(())
}
