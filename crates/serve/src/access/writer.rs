//! The thread that writes the log. Requests never wait for it: if the disk is too slow, lines are counted as lost.

use super::End;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Lines that wait for the disk, at most.
const WAITING: usize = 4096;

/// Most bytes of a write.
const LARGEST_WRITE: usize = 1 << 20;

/// An open log.
pub(crate) struct AccessLog {
    lines: Mutex<Option<SyncSender<String>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
    is_cut: AtomicBool,
}

/// Where the lines go.
trait Sink: Write + Send {
    /// Makes written lines survive a crash of the system.
    fn sync(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Sink for io::Stdout {
    fn sync(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl AccessLog {
    /// A log that is appended to a file; `-` means standard output.
    ///
    /// # Errors
    /// The file cannot be opened, or the system has no thread left.
    pub(crate) fn open(path: &Path) -> io::Result<Arc<Self>> {
        match path.as_os_str() == "-" {
            true => Self::begin(Box::new(io::stdout()), false),
            false => {
                let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
                let is_torn = ends_in_line(&mut file)?;
                Self::begin(Box::new(file), is_torn)
            }
        }
    }

    fn begin(sink: Box<dyn Sink>, is_torn: bool) -> io::Result<Arc<Self>> {
        let (send, lines) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer { sink, is_torn, is_failing: false, lost: Arc::clone(&lost) };
        let thread = std::thread::Builder::new().name("access log".to_owned()).spawn(move || writer.run(&lines))?;
        let (lines, thread) = (Mutex::new(Some(send)), Mutex::new(Some(thread)));
        Ok(Arc::new(AccessLog { lines, thread, lost, is_cut: AtomicBool::new(false) }))
    }

    /// Writes a line, soon.
    pub(super) fn write(&self, line: &Value) {
        let sent = self.lines.lock().as_ref().map(|lines| lines.try_send(line.to_string()));
        if !matches!(sent, Some(Ok(()))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Answers that have not ended are cut by the server from now on.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// How an answer ended that was dropped before its end.
    pub(super) fn end_of_dropped(&self) -> End {
        if self.is_cut.load(Ordering::Relaxed) { End::Cut } else { End::ClientGone }
    }

    /// Writes the rest.
    pub(crate) fn end(&self) {
        drop(self.lines.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            // An error: it panicked, and there is nothing left to write.
            let _ = thread.join();
        }
    }
}

/// Whether a file ends in the middle of a line, as one does whose writer was killed.
fn ends_in_line(file: &mut File) -> io::Result<bool> {
    if !file.metadata()?.is_file() || file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

struct Writer {
    sink: Box<dyn Sink>,
    /// The last write may have ended in the middle of a line.
    is_torn: bool,
    is_failing: bool,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Writes until there is no sender; lines that wait are written together.
    fn run(mut self, lines: &Receiver<String>) {
        while let Ok(first) = lines.recv() {
            let mut text = first + "\n";
            let mut count = 1;
            while text.len() < LARGEST_WRITE
                && let Ok(line) = lines.try_recv()
            {
                text += &line;
                text.push('\n');
                count += 1;
            }
            self.write(&text, count);
        }
    }

    /// Writes whole lines. A failure is said once, and the lines are counted as lost.
    fn write(&mut self, lines: &str, count: u64) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let mut text = String::new();
        if self.is_torn {
            text.push('\n');
        }
        if lost > 0 {
            text += &json!({ "lost": lost }).to_string();
            text.push('\n');
        }
        text += lines;
        match self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.sync()) {
            Ok(()) => (self.is_torn, self.is_failing) = (false, false),
            Err(why) => {
                if !self.is_failing {
                    eprintln!("the access log cannot be written: {why}");
                }
                (self.is_torn, self.is_failing) = (true, true);
                self.lost.fetch_add(lost + count, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn lines_are_appended_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.jsonl");
        std::fs::write(&path, "{\"a\":1}\n{\"torn").unwrap();
        let log = AccessLog::open(&path).unwrap();
        log.write(&json!({ "b": 2 }));
        log.end();
        log.write(&json!({ "c": "after the end" }));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"torn\n{\"b\":2}\n");
        assert!(AccessLog::open(folder.path()).is_err(), "a folder");
    }

    /// Fails until it is mended, and says when a write was tried.
    struct Faulty {
        written: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<AtomicBool>,
        tried: Arc<Barrier>,
    }

    impl Write for Faulty {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let is_full = self.is_full.load(Ordering::SeqCst);
            self.tried.wait();
            match is_full {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => {
                    self.written.lock().extend(bytes);
                    Ok(bytes.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Faulty {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_ends_nothing_and_lost_lines_are_counted() {
        let (written, is_full) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(true)));
        let tried = Arc::new(Barrier::new(2));
        let faulty = Faulty { written: Arc::clone(&written), is_full: Arc::clone(&is_full), tried: Arc::clone(&tried) };
        let log = AccessLog::begin(Box::new(faulty), false).unwrap();
        log.write(&json!(1));
        tried.wait();
        is_full.store(false, Ordering::SeqCst);
        // The writer may take this line only after it has counted the first one.
        log.write(&json!(2));
        tried.wait();
        log.end();
        assert_eq!(String::from_utf8(written.lock().clone()).unwrap(), "\n{\"lost\":1}\n2\n");
    }
}
