//! Uploading: worker threads read the file into mapped staging buffers; the thread that runs the pass has them copied to
//! where the weights belong, in between the dispatches that need them.
//!
//! Bytes are read with positioned reads, not through the map: a file that was truncated or cannot be read any more is an
//! error, and no page of it counts as memory of this process.

mod job;
mod staging;

pub(crate) use job::{Job, Part, cut};
pub(crate) use staging::Staging;
pub use staging::StagingSize;

use crate::timeline::Track;
use crate::{Device, RuntimeError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;
use wgoose_loader::{LoadError, Model};

/// How long to wait for a worker before looking after the device again.
const PATIENCE: Duration = Duration::from_micros(200);

const DURING: &str = "uploading weights";

/// A job on its way to a worker, or back.
struct Lent {
    slot: usize,
    buffer: wgpu::Buffer,
    job: Job,
}

/// Jobs under way. Dropping it ends the workers.
pub(crate) struct Upload<'a> {
    device: &'a Device,
    staging: &'a mut Staging,
    waiting: VecDeque<Job>,
    to_workers: Sender<Lent>,
    from_workers: Receiver<Result<Lent, LoadError>>,
    /// With the workers.
    filling: usize,
    /// Filled and not yet copied.
    filled: Vec<Lent>,
}

/// What every worker of an upload shares.
pub(crate) struct Workers {
    jobs: Mutex<Receiver<Lent>>,
}

impl<'a> Upload<'a> {
    /// The upload, and what its workers need: see [`Workers::work`].
    pub(crate) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        device: &'env Device,
        model: &'env Model,
        staging: &'a mut Staging,
        jobs: Vec<Job>,
        workers: usize,
    ) -> Self
    where
        'env: 'a,
    {
        let (to_workers, jobs_in) = channel();
        let (to_us, from_workers) = channel();
        let shared = Arc::new(Workers { jobs: Mutex::new(jobs_in) });
        for _ in 0..workers.min(jobs.len()) {
            let (shared, to_us) = (Arc::clone(&shared), to_us.clone());
            scope.spawn(move || shared.work(device, model, &to_us));
        }
        let mut upload =
            Upload { device, staging, waiting: jobs.into(), to_workers, from_workers, filling: 0, filled: Vec::new() };
        upload.hand_out();
        upload
    }

    /// Whether everything was copied.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.filling == 0 && self.filled.is_empty()
    }

    /// Gives workers what there are free buffers for, and waits a little for what they have filled.
    ///
    /// # Errors
    /// The file cannot be read, or the device fails.
    pub(crate) fn advance(&mut self) -> Result<(), RuntimeError> {
        let span = self.device.timeline().span(Track::Submit, "poll");
        let polled = self.device.device.poll(wgpu::PollType::Poll);
        drop(span);
        polled.map_err(|e| RuntimeError::Device { during: DURING.to_owned(), why: e.to_string() })?;
        self.hand_out();
        if self.filling == 0 {
            if self.filled.is_empty() && !self.waiting.is_empty() {
                self.staging.wait(self.device)?;
                self.hand_out();
            }
            return Ok(());
        }
        match self.from_workers.recv_timeout(PATIENCE) {
            Ok(lent) => self.take(lent)?,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RuntimeError::Device { during: DURING.to_owned(), why: "a worker died".to_owned() });
            }
        }
        while let Ok(lent) = self.from_workers.try_recv() {
            self.take(lent)?;
        }
        Ok(())
    }

    /// Encodes and submits the copies of filled jobs that `may` be copied now; `copy` encodes one job, given its staging
    /// buffer. Returns the jobs.
    ///
    /// # Errors
    /// Whatever `copy` fails with.
    pub(crate) fn copy(
        &mut self,
        may: &dyn Fn(&Job) -> bool,
        copy: &mut dyn FnMut(&Job, &wgpu::Buffer, &mut wgpu::CommandEncoder) -> Result<(), RuntimeError>,
    ) -> Result<Vec<Job>, RuntimeError> {
        let (now, later): (Vec<Lent>, Vec<Lent>) =
            std::mem::take(&mut self.filled).into_iter().partition(|l| may(&l.job));
        self.filled = later;
        if now.is_empty() {
            return Ok(Vec::new());
        }
        let mut span = self.device.timeline().span(Track::Submit, "encode copies");
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for lent in &now {
            let buffer = self.staging.copy_from(lent.slot, &encoder);
            copy(&lent.job, &buffer, &mut encoder)?;
        }
        let commands = encoder.finish();
        drop(span);
        span = self.device.timeline().span(Track::Submit, "submit copies");
        let index = self.device.queue.submit([commands]);
        drop(span);
        let slots: Vec<usize> = now.iter().map(|l| l.slot).collect();
        self.staging.submitted(&slots, index);
        Ok(now.into_iter().map(|l| l.job).collect())
    }

    fn take(&mut self, lent: Result<Lent, LoadError>) -> Result<(), RuntimeError> {
        self.filling -= 1;
        self.filled.push(lent?);
        Ok(())
    }

    fn hand_out(&mut self) {
        while !self.waiting.is_empty()
            && let Some((slot, buffer)) = self.staging.lend()
            && let Some(job) = self.waiting.pop_front()
        {
            self.filling += 1;
            // Workers live as long as this sender.
            let _ = self.to_workers.send(Lent { slot, buffer, job });
        }
    }
}

impl Workers {
    fn work(&self, device: &Device, model: &Model, done: &Sender<Result<Lent, LoadError>>) {
        let mut bounce = Vec::new();
        loop {
            let next = self.jobs.lock().recv();
            let Ok(lent) = next else { return };
            let name = lent.job.parts.first().map_or_else(String::new, |p| p.shard.weight.to_string());
            let span = device.timeline().span(Track::Upload, name);
            let filled = match lent.buffer.get_mapped_range_mut(..) {
                Ok(mut view) => job::fill(model, &lent.job, &mut view, &mut bounce),
                // It was mapped when it was lent; a device lost since then is reported by the next wait.
                Err(_) => Ok(()),
            };
            drop(span);
            if done.send(filled.map(|()| lent)).is_err() {
                return;
            }
        }
    }
}
