//! The loop of the engine thread: takes requests, removes sequences of disconnected clients, embeds a few texts, and
//! runs a turn of the batch.

use super::embed::EmbedQueue;
use super::{Command, TextEvent, Texts, events};
use crate::access::Record;
use crate::metrics::Metrics;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use wgoose_session::{BatchEvent, BatchRequest, Ending, SequenceId, Session, SessionBatch, SessionError, one_line};

/// Most decode steps of a turn.
const STEPS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// The client of a sequence.
struct Client {
    index: usize,
    events: UnboundedSender<(usize, TextEvent)>,
    /// Time of the request, or of the last text.
    since: Instant,
    has_text: bool,
    /// The record of its request in the access log.
    record: Option<Arc<Record>>,
}

pub(super) struct Loop {
    session: Session,
    batch: SessionBatch,
    commands: Receiver<Command>,
    clients: HashMap<SequenceId, Client>,
    embeds: EmbedQueue,
    metrics: Arc<Metrics>,
    is_well: Arc<AtomicBool>,
}

impl Loop {
    pub(super) fn new(
        session: Session,
        batch: SessionBatch,
        commands: Receiver<Command>,
        metrics: Arc<Metrics>,
        is_well: Arc<AtomicBool>,
    ) -> Self {
        let (clients, embeds) = (HashMap::new(), EmbedQueue::default());
        Loop { session, batch, commands, clients, embeds, metrics, is_well }
    }

    /// Runs until the last handle is dropped and all requests are done.
    pub(super) fn run(mut self) {
        while self.take_commands() {
            self.remove_disconnected();
            self.embeds.go_on(&mut self.session);
            self.turn();
            let waiting = self.batch.waiting();
            self.metrics.waiting.set(waiting as i64);
            self.metrics.running.set((self.batch.sequences().count() - waiting) as i64);
        }
    }

    /// Takes the requests that have come; waits for one if there is nothing to do. False: no handle is left.
    fn take_commands(&mut self) -> bool {
        if self.batch.is_idle() && self.embeds.is_empty() {
            match self.commands.recv() {
                Ok(command) => self.take(command),
                Err(_) => return false,
            }
        }
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return !(self.batch.is_idle() && self.embeds.is_empty()),
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Generate { requests, record, told } => {
                // An error: the client has disconnected, and its sequences leave before the next turn.
                let _ = told.send(self.join(requests, record.as_ref()));
            }
            Command::Embed { texts, options, told } => self.embeds.push(texts, options, told),
        }
    }

    fn join(&mut self, requests: Vec<BatchRequest>, record: Option<&Arc<Record>>) -> Result<Texts, SessionError> {
        let (send, texts) = events();
        let (mut joined, since) = (Vec::new(), Instant::now());
        for (index, request) in requests.into_iter().enumerate() {
            let tokens = request.prompt.len();
            match self.batch.join_request(request) {
                Ok(id) => {
                    self.metrics.prompt_tokens.inc_by(tokens as u64);
                    joined.push(id);
                    let (events, record) = (send.clone(), record.cloned());
                    record.iter().for_each(|record| record.text(tokens));
                    self.clients.insert(id, Client { index, events, since, has_text: false, record });
                }
                Err(why) => {
                    joined.into_iter().for_each(|id| self.leave(id));
                    return Err(why);
                }
            }
        }
        Ok(texts)
    }

    fn leave(&mut self, id: SequenceId) {
        let client = self.clients.remove(&id);
        let unread = self.batch.unread(id).unwrap_or(0);
        // An error: the sequence has ended.
        if let Ok((_, generated)) = self.batch.leave(id)
            && let Some(record) = client.and_then(|client| client.record)
        {
            record.given_up(unread, generated.tokens.len());
        }
    }

    fn remove_disconnected(&mut self) {
        let is_gone = |(id, client): (&SequenceId, &Client)| client.events.is_closed().then_some(*id);
        let gone: Vec<SequenceId> = self.clients.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|id| self.leave(id));
    }

    fn turn(&mut self) {
        if self.batch.is_idle() {
            return;
        }
        let Loop { batch, clients, metrics, .. } = self;
        let ran = batch.turn(STEPS, &mut |event| {
            let id = event.sequence();
            let Some(client) = clients.get_mut(&id) else { return };
            let (told, is_last) = match event {
                BatchEvent::Admitted(_, known) => {
                    client.record.iter().for_each(|record| record.cached(known));
                    metrics.cached_tokens.inc_by(known as u64);
                    (TextEvent::Admitted(known), false)
                }
                BatchEvent::Logprobs(_, logprobs) => (TextEvent::Logprobs(logprobs), false),
                BatchEvent::Text(_, text) => {
                    let now = Instant::now();
                    metrics.text_came(!client.has_text, now - client.since);
                    (client.since, client.has_text) = (now, true);
                    (TextEvent::Text(text), false)
                }
                BatchEvent::State(_, state) => (TextEvent::State(state), false),
                BatchEvent::Ended(_, generated) => {
                    metrics.generated_tokens.inc_by(generated.tokens.len() as u64);
                    let reason = if generated.ending == Ending::MaxTokens { "length" } else { "stop" };
                    client.record.iter().for_each(|record| record.generated(generated.tokens.len(), reason));
                    (TextEvent::Ended(generated), true)
                }
                BatchEvent::Failed(_, why) => (TextEvent::Failed(one_line(&why)), true),
            };
            // An error: the client has disconnected, and the sequence leaves before the next turn.
            let _ = client.events.send((client.index, told));
            if is_last {
                clients.remove(&id);
            }
        });
        self.is_well.store(ran.is_ok(), Ordering::Relaxed);
        if let Err(why) = ran {
            let why = one_line(&why);
            eprintln!("the model failed: {why}");
            for (_, client) in self.clients.drain() {
                let _ = client.events.send((client.index, TextEvent::Failed(why.clone())));
            }
        }
    }
}
