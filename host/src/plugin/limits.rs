//! What one instance may take of the host: memory, tables, core instances.

use wasmtime::{ResourceLimiter, Result, bail};

/// Core instances of one component; adapters and libraries make a component of a dozen.
const CORE_INSTANCES_MAX: usize = 200;

/// Counts what an instance holds, over all its memories and tables together.
pub struct Limiter {
    memory_bytes_max: usize,
    table_elements_max: usize,
    memory_bytes: usize,
    table_elements: usize,
    memory_was_refused: bool,
}

impl Limiter {
    pub fn new(memory_bytes_max: u64, table_elements_max: u64) -> Self {
        Self {
            memory_bytes_max: usize::try_from(memory_bytes_max).unwrap_or(usize::MAX),
            table_elements_max: usize::try_from(table_elements_max).unwrap_or(usize::MAX),
            memory_bytes: 0,
            table_elements: 0,
            memory_was_refused: false,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Whether growth was refused since this was last asked. A guest that traps afterwards ran out
    /// of memory; one that copes goes on.
    pub fn take_memory_refused(&mut self) -> bool {
        std::mem::take(&mut self.memory_was_refused)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let total = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        if total > self.memory_bytes_max {
            self.memory_was_refused = true;
            return Ok(false);
        }
        // The guest's own maximum is enforced after this call and fails without a second one.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.memory_bytes = total;
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let total = self.table_elements.saturating_add(desired.saturating_sub(current));
        if total > self.table_elements_max {
            bail!(
                "its tables would hold {total} elements, and limits.tables allows {}",
                self.table_elements_max
            );
        }
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.table_elements = total;
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_counted_together_and_a_refusal_is_remembered_once() {
        let mut limiter = Limiter::new(100, 10);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.take_memory_refused());
        assert!(!limiter.memory_growing(40, 41, None).unwrap());
        assert_eq!(limiter.memory_bytes(), 100);
        assert!(limiter.take_memory_refused());
        assert!(!limiter.take_memory_refused());
    }

    #[test]
    fn a_table_past_the_limit_traps_with_the_numbers() {
        let mut limiter = Limiter::new(100, 10);
        assert!(limiter.table_growing(0, 10, None).unwrap());
        let error = limiter.table_growing(0, 1, None).unwrap_err().to_string();
        assert!(error.contains("11") && error.contains("10"), "{error}");
    }
}
