//! Options of a server.

use std::path::PathBuf;
use std::time::Duration;

/// Options of a server. The default listens on the loopback address only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Name or address to listen on.
    pub host: String,
    /// Port to listen on; 0 picks a free one.
    pub port: u16,
    /// Name of the model in answers.
    pub model: String,
    /// The chat template in Jinja, or `rwkv` for that of the RWKV-7 G1 models. `None`: that of the model file, else
    /// that of these models.
    pub chat_template: Option<String>,
    /// Most sequences in the batch; fewer if the device has no memory for their states.
    pub parallel: usize,
    /// Most queued sequences; beyond that, requests get status 429.
    pub queue: usize,
    /// API keys: requests need one of them in `Authorization: Bearer KEY`. Without keys every request is accepted.
    pub api_keys: Vec<String>,
    /// Origins of web pages that may send requests, such as `https://example.org`; `*` means any.
    pub cors: Vec<String>,
    /// Accepted names in the `Host` header, beside those of the loopback address and [`ServeOptions::host`]; `*` means
    /// any. This stops DNS rebinding.
    pub allowed_hosts: Vec<String>,
    /// Most open connections. Further ones wait in the system's backlog. Most systems allow a process 1,024 open files.
    pub connections: usize,
    /// Folder for states and conversations; without one they are refused.
    pub state_folder: Option<PathBuf>,
    /// Most bytes of this folder. The least recently used conversations are deleted first.
    pub state_bytes: u64,
    /// File for the access log, which is appended to; `-` means standard output.
    pub access_log: Option<PathBuf>,
    /// Largest `max_tokens` of a request.
    pub max_tokens: usize,
    /// Most tokens of a prompt.
    pub max_prompt: usize,
    /// Most bytes of a request's body.
    pub max_body: usize,
    /// Most bytes of an uploaded state.
    pub max_state: usize,
    /// Timeout for the head and for the body of a request, for clients that take no bytes, and for idle connections.
    pub patience: Duration,
    /// Time for running requests to end after [`crate::Stopper::stop`].
    pub grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            model: "rwkv7".to_owned(),
            chat_template: None,
            parallel: 32,
            queue: 256,
            api_keys: Vec::new(),
            cors: Vec::new(),
            allowed_hosts: Vec::new(),
            connections: 512,
            state_folder: None,
            state_bytes: 16 << 30,
            access_log: None,
            max_tokens: 32 << 10,
            max_prompt: 1 << 20,
            max_body: 16 << 20,
            max_state: 1 << 30,
            patience: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
