//! Faults a test asks for: a call that fails before or after it took effect.

use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call never reached the database.
    BeforeEffect,
    /// The database did it and the answer was lost.
    AfterEffect,
}

type Hook = Box<dyn FnMut(&'static str) -> Option<Fault> + Send>;

/// Asked once per call, by the method's name.
#[derive(Default)]
pub struct Faults {
    planned: Mutex<Vec<(String, Fault)>>,
    hook: Mutex<Option<Hook>>,
}

impl Faults {
    /// Makes the next call of `method` fail; several plans for one method are drawn in order.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.planned.lock().expect("not poisoned").push((method.to_owned(), fault));
    }

    /// Asks `hook` at every call, after the plans of [`Faults::fail_next`].
    pub fn set_hook(&self, hook: impl FnMut(&'static str) -> Option<Fault> + Send + 'static) {
        *self.hook.lock().expect("not poisoned") = Some(Box::new(hook));
    }

    pub fn clear(&self) {
        self.planned.lock().expect("not poisoned").clear();
        *self.hook.lock().expect("not poisoned") = None;
    }

    pub(super) fn draw(&self, method: &'static str) -> Option<Fault> {
        let mut planned = self.planned.lock().expect("not poisoned");
        if let Some(index) = planned.iter().position(|(name, _)| name == method) {
            return Some(planned.remove(index).1);
        }
        drop(planned);
        self.hook.lock().expect("not poisoned").as_mut().and_then(|hook| hook(method))
    }
}
