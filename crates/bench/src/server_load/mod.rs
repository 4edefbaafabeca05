//! A load generator for HTTP servers with OpenAI's `/v1/completions`, of any project: clients in a closed loop, each of
//! which streams one completion after another.
//!
//! Every prompt is different, so that no prefix cache helps. The server's `usage` gives the token counts. The client
//! takes the times: time to first token from the request to the first text, inter-token time between two texts.

mod client;
mod url;

pub use url::{ServerUrl, UrlError};

use client::{Client, Completion, RequestError};
use serde::Serialize;
use std::time::Instant;
use tokio::task::JoinSet;

/// A load.
#[derive(Clone, Debug)]
pub struct ServerLoad {
    /// The server.
    pub url: ServerUrl,
    /// API key, if the server needs one.
    pub api_key: Option<String>,
    /// Clients that send requests at the same time.
    pub clients: usize,
    /// Requests of each client, one after another.
    pub requests: usize,
    /// Tokens of each prompt, about.
    pub prompt_tokens: usize,
    /// Tokens that each request decodes.
    pub decode_tokens: usize,
}

/// Quantiles of samples, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 95 of 100 samples are at most this.
    pub p95: f64,
    /// The largest one.
    pub max: f64,
}

/// The result of a load.
#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    /// Clients that sent requests at the same time.
    pub clients: usize,
    /// Completed requests.
    pub completed: usize,
    /// Requests that failed, and why: one line for each reason.
    pub failures: Vec<String>,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// Tokens decoded for all requests.
    pub decode_tokens: usize,
    /// From the first request to the end of the last answer.
    pub seconds: f64,
    /// Decoded tokens in each second of this time, which includes prefill.
    pub tokens_per_s: f64,
    /// Time to first token.
    pub first_ms: Quantiles,
    /// Time between two texts of a stream.
    pub between_ms: Quantiles,
}

/// Why a server cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServerLoadError {
    /// The first request failed.
    #[error("{url}: {why}")]
    Request {
        /// The server.
        url: ServerUrl,
        /// The reason.
        #[source]
        why: RequestFailure,
    },
    /// The system gives no runtime.
    #[error("no thread for the clients: {0}")]
    Io(#[from] std::io::Error),
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct RequestFailure(#[from] RequestError);

impl ServerLoad {
    /// Sends the requests.
    ///
    /// # Errors
    /// The first request, which measures how long prompts are, fails. Later failures are counted.
    pub fn run(&self) -> Result<ServerReport, ServerLoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let words = self
                .words()
                .await
                .map_err(|why| ServerLoadError::Request { url: self.url.clone(), why: RequestFailure(why) })?;
            Ok(self.load(words).await)
        })
    }

    /// The number of words of a prompt of the wanted length.
    async fn words(&self) -> Result<usize, RequestError> {
        let words = self.prompt_tokens.max(1);
        let mut client = Client::new(self.url.clone(), self.api_key.clone());
        let read = client.complete(&prompt(words, u64::MAX), 1).await?.prompt_tokens.max(1);
        Ok((words * words / read).max(1))
    }

    async fn load(&self, words: usize) -> ServerReport {
        let mut clients = JoinSet::new();
        let begun = Instant::now();
        for index in 0..self.clients {
            let (url, key, load) = (self.url.clone(), self.api_key.clone(), self.clone());
            clients.spawn(async move {
                let mut client = Client::new(url, key);
                let mut done = Vec::new();
                for request in 0..load.requests {
                    let seed = (index * load.requests + request) as u64;
                    done.push(client.complete(&prompt(words, seed), load.decode_tokens).await);
                }
                done
            });
        }
        let done: Vec<Result<Completion, RequestError>> = clients.join_all().await.into_iter().flatten().collect();
        report(self.clients, begun.elapsed().as_secs_f64(), done)
    }
}

fn report(clients: usize, seconds: f64, done: Vec<Result<Completion, RequestError>>) -> ServerReport {
    let mut failures: Vec<String> = Vec::new();
    let mut completions: Vec<Completion> = Vec::new();
    for one in done {
        match one {
            Ok(completion) => completions.push(completion),
            Err(why) => failures.push(why.to_string()),
        }
    }
    failures.sort();
    let decode_tokens = completions.iter().map(|c| c.decode_tokens).sum();
    ServerReport {
        clients,
        completed: completions.len(),
        failures,
        prompt_tokens: completions.iter().map(|c| c.prompt_tokens).sum(),
        decode_tokens,
        seconds,
        tokens_per_s: decode_tokens as f64 / seconds.max(1e-9),
        first_ms: quantiles(completions.iter().map(|c| c.first_ms).collect()),
        between_ms: quantiles(completions.iter().flat_map(|c| c.between_ms.iter().copied()).collect()),
    }
}

fn quantiles(mut samples: Vec<f64>) -> Quantiles {
    samples.sort_by(f64::total_cmp);
    let at =
        |share: f64| samples.get((samples.len() as f64 * share) as usize).or(samples.last()).copied().unwrap_or(0.0);
    Quantiles { p50: at(0.5), p95: at(0.95), max: at(1.0) }
}

/// A text of that many words, another one for each seed.
fn prompt(words: usize, seed: u64) -> String {
    const WORDS: [&str; 16] = [
        "the", "goose", "flies", "over", "a", "lake", "and", "swan", "river", "north", "wind", "old", "house", "in",
        "snow", "light",
    ];
    // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let text: Vec<&str> = (0..words).map(|_| WORDS[(next() % 16) as usize]).collect();
    text.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_sorted_samples() {
        let samples = (0..100).rev().map(f64::from).collect();
        assert_eq!(quantiles(samples), Quantiles { p50: 50.0, p95: 95.0, max: 99.0 });
        assert_eq!(quantiles(Vec::new()), Quantiles::default());
    }

    #[test]
    fn every_seed_has_another_prompt() {
        assert_ne!(prompt(20, 1), prompt(20, 2));
        assert_eq!(prompt(20, 3).split(' ').count(), 20);
    }
}
