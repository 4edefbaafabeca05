//! Finds the plan: space, measurement, quality gate, ledger.
