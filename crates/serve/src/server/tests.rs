//! Servers with short timeouts, asked over sockets.

use super::Server;
use crate::ServeOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_session::{Backend, Session};

const SHAPE: ModelShape = ModelShape {
    layers: 1,
    width: 32,
    ffn: 32,
    head_size: 32,
    vocab: 300,
    ranks: LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// Runs a server on a thread, which `stop` ends.
fn begin(options: ServeOptions) -> (SocketAddr, super::Stopper, JoinHandle<()>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (container, mix) = (Container::Gguf, Mix::F16);
    let synth = SynthOptions { shape: SHAPE, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    write(&synth, &path, &mut unwatched).unwrap();
    let session = Session::builder().backend(Backend::Cpu).open(&path).unwrap();
    let server = Server::bind(ServeOptions { port: 0, ..options }).unwrap();
    let (address, stopper) = (server.address().unwrap(), server.stopper());
    let thread = std::thread::spawn(move || {
        server.run(session, |_| {}).unwrap();
        drop(folder);
    });
    (address, stopper, thread)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    stream
}

#[test]
fn a_client_that_takes_no_bytes_is_cut_off() {
    /// Requests whose answers are more than the sockets hold.
    const REQUESTS: usize = 1000;
    let options = ServeOptions { connections: 1, patience: Duration::from_millis(200), ..ServeOptions::default() };
    let (address, stopper, thread) = begin(options);
    let mut stalled = connect(address);
    stalled.write_all("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(REQUESTS).as_bytes()).unwrap();
    // It has the only place, and this one waits until it is cut off.
    let mut other = connect(address);
    other.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut taken = Vec::new();
    // An error: the connection was reset.
    let _ = stalled.read_to_end(&mut taken);
    let answers = String::from_utf8_lossy(&taken).matches("HTTP/1.1 200").count();
    assert!((1..REQUESTS).contains(&answers), "{answers}");
    assert!(stopper.stop() && !stopper.stop());
    thread.join().unwrap();
}
