//! The engine thread owns the model. Requests reach it over one channel; each request gets its events over a channel.

mod embed;
mod thread;

use crate::access::{self, Record};
use crate::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{mpsc, oneshot};
use wgoose_session::sampling::TokenLogprobs;
use wgoose_session::{BatchRequest, EmbedOptions, Generated, Session, SessionError, StateData};

/// Embeddings, in the order of their texts.
type Embeddings = Vec<Vec<f32>>;

/// A request to the thread.
enum Command {
    /// Generates texts: all join the batch, or none.
    Generate {
        requests: Vec<BatchRequest>,
        record: Option<Arc<Record>>,
        told: oneshot::Sender<Result<Texts, SessionError>>,
    },
    /// Embeds texts.
    Embed { texts: Vec<Vec<u32>>, options: EmbedOptions, told: oneshot::Sender<Result<Embeddings, SessionError>> },
}

/// An event of a text.
#[derive(Debug)]
pub(crate) enum TextEvent {
    /// It was admitted; the prefix cache had that many tokens of its prompt.
    Admitted(usize),
    /// Log-probabilities of a token, before its text.
    Logprobs(TokenLogprobs),
    /// More of the text.
    Text(String),
    /// The state at its end, if the request asked for it.
    State(Arc<StateData>),
    /// The end.
    Ended(Generated),
    /// It failed, with the reason.
    Failed(String),
}

/// Events of the texts of a request, with the index of the text. Dropping it ends the generation.
pub(crate) type Texts = UnboundedReceiver<(usize, TextEvent)>;

/// A handle of the thread.
#[derive(Clone)]
pub(crate) struct Engine {
    commands: Sender<Command>,
    is_well: Arc<AtomicBool>,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum EngineError {
    /// The model, the device, or the request.
    Session(SessionError),
    /// The thread has ended.
    Ended,
}

impl Engine {
    /// Starts a thread with that session and a batch of `parallel` sequences; it ends with the last handle. Returns the
    /// thread and the capacity of the batch, too.
    ///
    /// # Errors
    /// The batch cannot be made, or the system has no thread left.
    pub(crate) fn begin(
        mut session: Session,
        parallel: usize,
        queue: usize,
        metrics: Arc<Metrics>,
    ) -> Result<(Engine, JoinHandle<()>, usize), crate::ServeError> {
        let batch = session.batch(parallel)?.with_queue(queue);
        let capacity = batch.capacity();
        let (commands, received) = std::sync::mpsc::channel();
        let is_well = Arc::new(AtomicBool::new(true));
        let state = Arc::clone(&is_well);
        let thread = std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || thread::Loop::new(session, batch, received, metrics, state).run())?;
        Ok((Engine { commands, is_well }, thread, capacity))
    }

    /// A handle of a thread that has ended.
    pub(crate) fn ended() -> Engine {
        Engine { commands: std::sync::mpsc::channel().0, is_well: Arc::default() }
    }

    /// Whether the last turn succeeded.
    pub(crate) fn is_well(&self) -> bool {
        self.is_well.load(Ordering::Relaxed)
    }

    /// Generates texts: all join the batch, or none.
    pub(crate) async fn generate(&self, requests: Vec<BatchRequest>) -> Result<Texts, EngineError> {
        let (told, answer) = oneshot::channel();
        let record = access::current();
        self.commands.send(Command::Generate { requests, record, told }).map_err(|_| EngineError::Ended)?;
        answer.await.map_err(|_| EngineError::Ended)?.map_err(EngineError::Session)
    }

    /// Embeds texts.
    pub(crate) async fn embed(&self, texts: Vec<Vec<u32>>, options: EmbedOptions) -> Result<Embeddings, EngineError> {
        let (told, answer) = oneshot::channel();
        self.commands.send(Command::Embed { texts, options, told }).map_err(|_| EngineError::Ended)?;
        answer.await.map_err(|_| EngineError::Ended)?.map_err(EngineError::Session)
    }
}

/// The channel of a request's events.
fn events() -> (mpsc::UnboundedSender<(usize, TextEvent)>, Texts) {
    mpsc::unbounded_channel()
}
