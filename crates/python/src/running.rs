//! Threads that generate. Python must not end under them: a driver that is unloaded while they call it takes the process
//! with it. At exit they are told to stop, and waited for.

use crate::handoff::Handoff;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Those that may still run, by where they give their text.
static RUNNING: Mutex<Vec<Arc<Handoff>>> = Mutex::new(Vec::new());

/// Starts a thread that gives text; [`Handoff::finish`] is called however it ends.
pub(crate) fn spawn<T: Send + 'static>(
    handoff: &Arc<Handoff>,
    run: impl FnOnce(&Handoff) -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let entry = Entry(Arc::clone(handoff));
    RUNNING.lock().push(Arc::clone(handoff));
    std::thread::Builder::new().name("wgoose generate".to_owned()).spawn(move || {
        // Also where it panics, or does not even start.
        let entry = entry;
        run(&entry.0)
    })
}

/// Stops all of them and returns when they have ended.
pub(crate) fn stop_all() {
    loop {
        let running = RUNNING.lock().clone();
        if running.is_empty() {
            return;
        }
        running.iter().for_each(|handoff| handoff.close());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

struct Entry(Arc<Handoff>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.finish();
        RUNNING.lock().retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}
