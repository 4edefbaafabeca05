//! Clients that ask, and compare each answer with that of a server without load.

use crate::shell::{Error, Result};
use serde_json::{Value, json};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What they ask.
const PROMPTS: [&str; 5] = [
    "The SELECT statement ",
    "A goose is ",
    "To install the package, ",
    "User: What is a table?\n\nAssistant:",
    "1. Open the file.\n2. ",
];

/// Tokens of an answer.
const TOKENS: usize = 8;

/// Patience with an answer: as long as that a server under load is alive.
const PATIENCE: Duration = Duration::from_secs(300);

/// The answers of a server without load.
pub(super) struct Answers {
    texts: Vec<String>,
    /// Median of its times.
    alone: Duration,
}

/// Times of answers under load.
#[derive(Default)]
pub(super) struct Latencies {
    times: Mutex<Vec<Duration>>,
    /// Requests that were refused because the queue was full, and sent again.
    refused: AtomicU64,
}

impl Answers {
    pub(super) fn alone(address: &str) -> Result<Self> {
        let mut connection = Connection::to(address)?;
        // Pipelines are compiled with the first one.
        connection.ask(PROMPTS[0])?;
        let (mut texts, mut times) = (Vec::new(), Vec::new());
        for prompt in PROMPTS {
            let begun = Instant::now();
            texts.push(connection.answer(prompt)?.0);
            times.push(begun.elapsed());
        }
        times.sort();
        Ok(Answers { texts, alone: times[times.len() / 2] })
    }

    /// Asks until the end.
    ///
    /// # Errors
    /// An answer differs, or none comes.
    pub(super) fn compare(&self, address: &str, client: usize, ends: &AtomicBool, latencies: &Latencies) -> Result<()> {
        let mut connection = Connection::to(address)?;
        for turn in client.. {
            if ends.load(Ordering::Relaxed) {
                break;
            }
            // Some keep their connection, some do not.
            if turn % 7 == 0 {
                connection = Connection::to(address)?;
            }
            let index = turn % PROMPTS.len();
            let begun = Instant::now();
            let (text, refused) = connection.answer(PROMPTS[index])?;
            latencies.add(begun.elapsed(), refused);
            self.check(index, &text)?;
        }
        Ok(())
    }

    /// Asks once; the time of the answer.
    ///
    /// # Errors
    /// The answer differs, or none comes.
    pub(super) fn compare_once(&self, address: &str) -> Result<Duration> {
        let begun = Instant::now();
        let (text, _) = Connection::to(address)?.answer(PROMPTS[0])?;
        self.check(0, &text)?;
        Ok(begun.elapsed())
    }

    fn check(&self, index: usize, text: &str) -> Result<()> {
        match self.texts[index] == text {
            true => Ok(()),
            false => Err(Error::Other(format!(
                "under load {:?} is continued with {text:?}, alone with {:?}",
                PROMPTS[index], self.texts[index]
            ))),
        }
    }
}

impl Latencies {
    fn add(&self, time: Duration, refused: u64) {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push(time);
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "without load an answer of {TOKENS} tokens takes {:.1} ms (median)", self.alone.as_secs_f64() * 1e3)
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times.sort();
        let at =
            |part: usize| times.get(times.len() * part / 100).or(times.last()).map_or(0.0, Duration::as_secs_f64) * 1e3;
        let refused = self.refused.load(Ordering::Relaxed);
        write!(
            f,
            "{} answers, all equal to those without load; median {:.1} ms, p95 {:.1} ms, longest {:.1} ms; \
             {refused} refused with a full queue and asked again",
            times.len(),
            at(50),
            at(95),
            at(100)
        )
    }
}

/// A connection that is kept alive.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn to(address: &str) -> Result<Self> {
        let connected = TcpStream::connect(address).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        connected.map(|stream| Connection(BufReader::new(stream))).map_err(|e| lost("no connection", &e))
    }

    /// The text that continues a prompt, and how often the queue was full.
    fn answer(&mut self, prompt: &str) -> Result<(String, u64)> {
        for refused in 0.. {
            let (status, body) = self.ask(prompt)?;
            match status {
                200 => return Ok((body["choices"][0]["text"].as_str().unwrap_or_default().to_owned(), refused)),
                429 => std::thread::sleep(Duration::from_millis(100)),
                _ => return Err(Error::Other(format!("status {status}: {body}"))),
            }
        }
        unreachable!("the range has no end")
    }

    fn ask(&mut self, prompt: &str) -> Result<(u16, Value)> {
        let body = json!({ "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "priority": 1 }).to_string();
        let head =
            format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        self.exchange(&(head + &body)).map_err(|e| lost("no answer", &e))
    }

    fn exchange(&mut self, request: &str) -> std::io::Result<(u16, Value)> {
        self.0.get_mut().write_all(request.as_bytes())?;
        let (mut status, mut length) = (0, 0);
        for number in 0.. {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_lowercase();
            if number == 0 {
                status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
            }
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.parse().unwrap_or(0);
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

fn lost(what: &str, why: &std::io::Error) -> Error {
    Error::Other(format!("{what}: {why}"))
}
