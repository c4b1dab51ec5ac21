//! What one connection may cost, and how many there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::peers::counting_key;

/// Most headers of a request.
pub const MAX_HEADERS: usize = 64;
/// Most bytes of a request's first line and headers.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Read buffer of a connection, bytes.
pub const MAX_BUFFER_BYTES: usize = 64 * 1024;
/// Requests after which a connection is closed, so that none is for ever.
pub const MAX_REQUESTS_PER_CONNECTION: u64 = 1000;
/// Longest time a write may make no progress.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection on which nothing was asked yet may live on once a stop began.
pub const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
/// How much of a refused body is read and thrown away before closing.
pub const LINGER_BYTES: u64 = 4 * 1024 * 1024;
/// How long that may take.
pub const LINGER_TIME: Duration = Duration::from_secs(2);
/// How long that may take once a stop began.
pub const LINGER_TIME_STOPPING: Duration = Duration::from_millis(500);

/// Open connections per address.
#[derive(Debug, Default)]
pub struct PerAddress {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One counted connection; uncounted when dropped.
#[derive(Debug)]
pub struct Slot {
    table: Arc<PerAddress>,
    key: IpAddr,
}

impl PerAddress {
    /// Counts a connection from `address` unless there are already `max`.
    pub fn take(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<Slot> {
        let key = counting_key(address);
        let mut open = self.lock();
        let count = open.entry(key).or_insert(0);
        if *count >= max {
            // With `max` 0 the entry may be new and empty: leave nothing behind.
            if *count == 0 {
                open.remove(&key);
            }
            return None;
        }
        *count += 1;
        drop(open);
        Some(Slot {
            table: Arc::clone(self),
            key,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.table.lock();
        if let Some(count) = open.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_per_address_and_leave_nothing_behind() {
        let table = Arc::new(PerAddress::default());
        let (a, b): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let first = table.take(a, 2).unwrap();
        let second = table.take(a, 2).unwrap();
        assert!(table.take(a, 2).is_none());
        let other = table.take(b, 2).unwrap();
        drop(first);
        let third = table.take(a, 2).unwrap();
        assert!(table.take(b, 0).is_none());
        drop((second, other, third));
        assert!(table.take(a, 0).is_none());
        assert!(table.lock().is_empty());
    }
}
