//! Errors of a server.

use std::io;
use std::path::PathBuf;
use wgoose_session::{ChatFormatError, SessionError};

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Host and port.
        address: String,
        /// What the system says.
        #[source]
        why: io::Error,
    },
    /// An option that cannot be the value of an HTTP header.
    #[error("{option} '{value}' is not a value that an HTTP header can have")]
    Header {
        /// Which.
        option: &'static str,
        /// Its value.
        value: String,
    },
    /// The access log.
    #[error("--access-log {}: {why}", path.display())]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        why: io::Error,
    },
    /// A thread or a socket.
    #[error("the server cannot run: {0}")]
    Io(#[from] io::Error),
    /// The folder of states.
    #[error("--state-dir: {0}")]
    States(String),
    /// The chat template.
    #[error("{0}; --chat-template rwkv takes that of the RWKV-7 G1 models")]
    ChatTemplate(#[from] ChatFormatError),
    /// The model or the device.
    #[error(transparent)]
    Session(#[from] SessionError),
}
