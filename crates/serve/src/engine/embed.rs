//! The queue of texts to embed. The thread embeds a few at a time, so that decoding sequences continue in between.

use super::Embeddings;
use std::collections::VecDeque;
use tokio::sync::oneshot;
use wgoose_session::{CancelToken, EmbedOptions, Session, SessionError};

/// Tokens to embed at once, at least.
const TOKENS: usize = 4096;

/// The texts of a request, and the embeddings of the first ones.
struct Job {
    texts: Vec<Vec<u32>>,
    options: EmbedOptions,
    done: Embeddings,
    told: oneshot::Sender<Result<Embeddings, SessionError>>,
}

/// Requests for embeddings, which take turns.
#[derive(Default)]
pub(super) struct EmbedQueue(VecDeque<Job>);

impl EmbedQueue {
    pub(super) fn push(
        &mut self,
        texts: Vec<Vec<u32>>,
        options: EmbedOptions,
        told: oneshot::Sender<Result<Embeddings, SessionError>>,
    ) {
        self.0.push_back(Job { texts, options, done: Vec::new(), told });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Embeds the next few texts of the first request; answers the request after its last text.
    pub(super) fn go_on(&mut self, session: &mut Session) {
        self.0.retain(|job| !job.told.is_closed());
        let Some(mut job) = self.0.pop_front() else { return };
        let rest = &job.texts[job.done.len()..];
        let mut tokens = 0;
        let now = rest
            .iter()
            .take_while(|text| {
                tokens < TOKENS && {
                    tokens += text.len();
                    true
                }
            })
            .count();
        let embedded = session.embed_batch(&rest[..now], &job.options, &CancelToken::default());
        match embedded {
            Ok(embedded) => {
                job.done.extend(embedded);
                if job.done.len() < job.texts.len() {
                    self.0.push_back(job);
                } else {
                    // An error: the client has disconnected.
                    let _ = job.told.send(Ok(job.done));
                }
            }
            Err(why) => drop(job.told.send(Err(why))),
        }
    }
}
