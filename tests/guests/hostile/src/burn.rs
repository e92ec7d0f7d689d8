//! Misdeeds that use up what the host lends: time, memory, stack, tables, handles.

use std::hint::black_box;

use crate::bindings::wasi::cli::exit;
use crate::bindings::wasi::clocks::monotonic_clock;
use crate::{Delivery, delivered};

pub fn spin() -> ! {
    let mut n = 0u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

pub fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

pub fn recursion() -> Delivery {
    delivered(Some(descend(black_box(0)).to_string()))
}

/// The frame is read after the call, so that it can't become a loop.
#[inline(never)]
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX {
        return 0;
    }
    descend(black_box(depth + 1)).wrapping_add(frame[(depth % 64) as usize])
}

/// Touches a mebibyte at a time until the host says no; then the allocator aborts.
pub fn allocate() -> Delivery {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1u8; 1 << 20]));
    }
}

/// Keeps `bytes` of memory beyond the call.
pub fn leak(bytes: u64) -> Delivery {
    std::mem::forget(black_box(vec![1u8; bytes as usize]));
    delivered(None)
}

pub fn table_growth() -> Delivery {
    let mut entries = 0u64;
    loop {
        // A refused growth answers -1 and is no trap of its own.
        if grow_table(1 << 16) < 0 {
            return delivered(Some(format!("entries={entries}")));
        }
        entries += 1 << 16;
    }
}

/// Rust has no word for `table.grow`; the assembler has.
fn grow_table(by: i32) -> i32 {
    let before: i32;
    unsafe {
        core::arch::asm!(
            ".tabletype hostile_table, funcref",
            "ref.null_func",
            "local.get {by}",
            "table.grow hostile_table",
            "local.set {before}",
            by = in(local) by,
            before = out(local) before,
        );
    }
    before
}

core::arch::global_asm!(".tabletype hostile_table, funcref", ".globl hostile_table", "hostile_table:",);

/// Pollables that are never dropped.
pub fn handles_leak(count: u64) -> Delivery {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(monotonic_clock::subscribe_duration(1));
    }
    let text = format!("handles={}", held.len());
    std::mem::forget(held);
    delivered(Some(text))
}

/// Waits in the host, where no instruction is counted.
pub fn sleep(ms: u64) -> Delivery {
    monotonic_clock::subscribe_duration(ms.saturating_mul(1_000_000)).block();
    delivered(Some(format!("slept={ms}")))
}

pub fn exit() -> Delivery {
    exit::exit(Err(()));
    delivered(Some("still here".into()))
}
