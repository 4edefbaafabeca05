//! The listening socket: accepts connections, sets their timeouts, and shuts down gracefully.

use crate::access::{self, AccessLog};
use crate::api::{self, Served};
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::states::States;
use crate::{ServeError, ServeOptions, guard};
use axum::middleware;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use wgoose_session::{ChatFormat, EmbedOptions, Session};

/// Threads for requests and answers, beside the engine thread.
const THREADS: usize = 2;

/// Pause after a failed accept, for example when no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// Time for states to be written after the last answer.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// Largest head of a request, in bytes.
const LARGEST_HEAD: usize = 64 << 10;

/// A bound socket. [`Server::run`] answers requests.
pub struct Server {
    listener: TcpListener,
    options: ServeOptions,
    access_log: Option<Arc<AccessLog>>,
    stop: (watch::Sender<bool>, watch::Receiver<bool>),
}

/// Stops a server.
#[derive(Clone)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Begins a graceful shutdown: running requests have [`ServeOptions::grace`] to end. False: it had begun before.
    pub fn stop(&self) -> bool {
        !self.0.send_replace(true)
    }
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// The address cannot be bound, the access log not opened, or an option makes no sense.
    pub fn bind(options: ServeOptions) -> Result<Self, ServeError> {
        guard::cors(&options)?;
        let listener = TcpListener::bind((options.host.as_str(), options.port));
        let address = || format!("{}:{}", options.host, options.port);
        let listener = listener.map_err(|why| ServeError::Listen { address: address(), why })?;
        listener.set_nonblocking(true)?;
        let open =
            |path: &PathBuf| AccessLog::open(path).map_err(|why| ServeError::AccessLog { path: path.clone(), why });
        let access_log = options.access_log.as_ref().map(open).transpose()?;
        Ok(Server { listener, options, access_log, stop: watch::channel(false) })
    }

    /// The bound address.
    ///
    /// # Errors
    /// The system does not tell it.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        Ok(self.listener.local_addr()?)
    }

    /// Sets the name of the model in answers, see [`ServeOptions::model`].
    pub fn set_model(&mut self, name: String) {
        self.options.model = name;
    }

    /// A handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.0.clone())
    }

    /// Answers requests with that model until the server is stopped; `on_ready` gets the capacity of the batch.
    ///
    /// # Errors
    /// The model has no tokenizer, or the device no memory for a batch.
    pub fn run(self, session: Session, on_ready: impl FnOnce(usize)) -> Result<(), ServeError> {
        let Server { listener, options, access_log, stop: (_sender, stop) } = self;
        let (metrics, tokenizer) = (Arc::new(Metrics::new()), session.tokenizer()?.clone());
        let grammars = Arc::clone(session.grammars()?);
        let embedding = EmbedOptions::of(session.model());
        let template = options.chat_template.as_ref().or(session.model().about().chat_template.as_ref());
        let format = template.map_or_else(|| Ok(ChatFormat::default()), |template| ChatFormat::new(template))?;
        let states = match &options.state_folder {
            Some(folder) => {
                let (shape, fingerprint) = (*session.model().shape(), session.model().fingerprint().to_string());
                let states = States::open(folder, options.state_bytes, shape, fingerprint);
                Some(Arc::new(states.map_err(|why| ServeError::States(why.to_string()))?))
            }
            None => None,
        };
        let adapters = session.model().adapters().to_vec();
        let (engine, thread, capacity) = Engine::begin(session, options.parallel, options.queue, Arc::clone(&metrics))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let log = access_log.clone();
        let served = Arc::new(Served {
            access_log,
            options,
            engine,
            tokenizer,
            format,
            grammars,
            embedding,
            states,
            metrics,
            capacity,
            adapters,
            since,
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let ended = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            on_ready(capacity);
            serve(listener, served, stop).await
        });
        runtime.shutdown_timeout(LAST_WRITES);
        // Its last handle is gone. The process must not end while the thread uses the driver.
        let _ = thread.join();
        log.iter().for_each(|log| log.end());
        ended
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    served: Arc<Served>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let options = &served.options;
    let mut app =
        api::router(Arc::clone(&served)).layer(middleware::from_fn_with_state(Arc::clone(&served), guard::check));
    if let Some(cors) = guard::cors(options)? {
        app = app.layer(cors);
    }
    let app = app.layer(middleware::from_fn_with_state(Arc::clone(&served), access::record));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(options.patience).max_buf_size(LARGEST_HEAD).keep_alive(true);
    let places = Arc::new(Semaphore::new(options.connections.max(1)));
    let ending = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await;
                (place, listener.accept().await)
            } => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (Ok(place), accepted) = accepted else { break };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(why) => {
                // No file descriptor is left, or the client has disconnected already.
                eprintln!("a connection is not accepted: {why}");
                sleep(PAUSE).await;
                continue;
            }
        };
        // Each token is sent at once. An error only makes answers late.
        let _ = socket.set_nodelay(true);
        // A client that takes no bytes for so long is cut off.
        let mut socket = Box::pin(TimeoutStream::new(socket));
        socket.as_mut().set_write_timeout_pinned(Some(options.patience));
        let connection = http.serve_connection(TokioIo::new(socket), TowerToHyperService::new(app.clone()));
        let connection = ending.watch(connection);
        tokio::spawn(async move {
            // An error: the client has disconnected, or it sent no HTTP and has its answer.
            let _ = connection.await;
            drop(place);
        });
    }
    // Requests that outlast the grace period are cut.
    if timeout(options.grace, ending.shutdown()).await.is_err() {
        served.access_log.iter().for_each(|log| log.cut());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
