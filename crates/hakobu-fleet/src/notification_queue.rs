//! The queue between the leader and the deliveries of its notifications. It never holds up the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::notification::Notification;
use crate::notification_setting::NotificationSetting;

/// The maximum number of notifications that wait.
const QUEUE_MAX: usize = 1024;

/// A notification with those who get it.
#[derive(Clone, Debug)]
pub struct QueuedNotification {
    /// Those who get it.
    pub recipients: NotificationSetting,
    /// The notification.
    pub notification: Notification,
}

/// The end of the queue at which the leader puts notifications.
#[derive(Clone, Debug)]
pub struct NotificationQueue {
    put: Sender<QueuedNotification>,
    dropped: Arc<AtomicU64>,
}

/// The end of the queue at which notifications are taken.
#[derive(Debug)]
pub struct QueuedNotifications {
    take: Receiver<QueuedNotification>,
    dropped: Arc<AtomicU64>,
}

/// Creates a queue.
pub fn notification_queue() -> (NotificationQueue, QueuedNotifications) {
    let (put, take) = channel(QUEUE_MAX);
    let dropped = Arc::<AtomicU64>::default();
    (NotificationQueue { put, dropped: dropped.clone() }, QueuedNotifications { take, dropped })
}

impl NotificationQueue {
    /// Puts a notification at the end. If too many wait, it is dropped and counted.
    pub fn put(&self, notification: QueuedNotification) {
        if self.put.try_send(notification).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl QueuedNotifications {
    /// Waits for a notification. Returns `None` once nobody puts any more.
    pub async fn next(&mut self) -> Option<QueuedNotification> {
        self.take.recv().await
    }

    /// Returns a notification that waits.
    pub fn try_next(&mut self) -> Option<QueuedNotification> {
        self.take.try_recv().ok()
    }

    /// Returns the number of notifications that were dropped since this was last asked.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
