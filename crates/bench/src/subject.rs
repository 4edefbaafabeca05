//! The subject of a benchmark: how its session is opened, and the engine below it.

use std::path::Path;
use wgoose_kernels::{Plan, PrecisionClass};
use wgoose_runtime::{Device, Engine, GpuExecutor};
use wgoose_session::{Backend, Chosen, PlanReport, SessionBuilder, SessionError};

/// How a session is opened.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Opens it.
    pub builder: SessionBuilder,
    /// Where the builder runs it.
    pub backend: Backend,
    /// Most tokens in a pass that the builder allows, instead of the plan's choice.
    pub chunk: Option<u32>,
}

/// An engine and what it is.
pub struct ConfiguredEngine {
    /// The engine.
    pub engine: Engine,
    /// None for the CPU reference.
    pub plan: Option<Plan>,
    /// The plan's name or file; None for a default plan.
    pub plan_name: Option<String>,
    /// The plan's class of precision.
    pub class: PrecisionClass,
    /// Whether a CPU runs the kernels, or the reference.
    pub is_cpu: bool,
    /// Adapter and driver.
    pub device: String,
}

impl Subject {
    /// The executor that a session would run on, with that many sequences, whatever the backend.
    ///
    /// # Errors
    /// The model file, the device or the plan.
    pub fn executor(&self, model: &Path, slots: usize) -> Result<GpuExecutor, SessionError> {
        self.planned(model, slots).map(|(executor, _)| executor)
    }

    /// The same, and where its plan is from.
    fn planned(&self, model: &Path, slots: usize) -> Result<(GpuExecutor, PlanReport), SessionError> {
        let model = self.builder.open_file(model)?;
        let device = Device::open_with(&self.builder.device_options())?;
        let Chosen { mut plan, report } = self.builder.plan_for(&device, &model)?;
        plan.prefill_chunk = self.chunk.unwrap_or(plan.prefill_chunk);
        Ok((self.builder.executor(device, model, plan, slots)?, report))
    }

    /// The engine that a session would run on, with that many sequences, and what it is.
    ///
    /// # Errors
    /// The model file, the device or the plan.
    pub fn engine(&self, model: &Path, slots: usize) -> Result<ConfiguredEngine, SessionError> {
        if self.backend == Backend::Cpu {
            let engine = Engine::cpu(self.builder.open_file(model)?, slots)?;
            let device = "CPU reference".to_owned();
            let class = PrecisionClass::default();
            return Ok(ConfiguredEngine { engine, plan: None, plan_name: None, class, is_cpu: true, device });
        }
        let (executor, report) = self.planned(model, slots)?;
        let (plan, class, is_cpu) = (executor.plan().clone(), executor.class(), executor.device().is_cpu());
        let device = executor.device().fingerprint();
        let device = format!("{}, {}", device.adapter, device.driver);
        let engine = Engine::new(Box::new(executor), plan.prefill_chunk as usize);
        Ok(ConfiguredEngine { engine, plan: Some(plan), plan_name: report.name(), class, is_cpu, device })
    }
}
