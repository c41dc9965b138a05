//! Allocates data buffers in huge pages.
//!
//! With direct I/O a device gets the physical pages of a buffer one by one. 1 MiB in pages of 4 KiB consists of 256
//! scattered pages, each of which has to be looked up, pinned and described; in a huge page it is a single one. With
//! emulated devices, as in virtual machines, this takes more time than the transfer of the bytes.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page in bytes on common machines: x86-64, and arm64 with pages of 4 KiB. If huge pages are
/// larger, or not available, ordinary memory is used.
pub const BLOCK_BYTES: usize = 2 << 20;

/// The maximum size of unused buffers that a pool keeps, in bytes; the rest is freed.
const SPARE_BYTES_MAX: usize = 64 << 20;

/// A pool of buffers of one size, allocated in huge pages. Meant to be a `static`. Taking and returning a buffer
/// takes a lock for a moment, so frequent users should keep some buffers.
#[derive(Debug)]
pub struct BufferPool {
    room_bytes: usize,
    spare: Mutex<Vec<BlockSlot>>,
}

impl BufferPool {
    /// Creates a pool of buffers of `room_bytes`, which must divide [`BLOCK_BYTES`].
    pub const fn new(room_bytes: usize) -> Self {
        assert!(room_bytes > 0 && BLOCK_BYTES.is_multiple_of(room_bytes), "rooms must fill a block");
        Self { room_bytes, spare: Mutex::new(Vec::new()) }
    }

    /// Returns a buffer with unspecified previous content.
    ///
    /// Aborts the process if the system has no memory, as every allocation does.
    pub fn take(&'static self) -> PooledBuffer {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_empty() {
            let block = Arc::new(AlignedBlock::new());
            let places = (0..BLOCK_BYTES).step_by(self.room_bytes).rev();
            spare.extend(places.map(|begin| BlockSlot { block: Arc::clone(&block), begin }));
        }
        match spare.pop() {
            Some(place) => PooledBuffer { store: self, place: Some(place) },
            None => unreachable!("a block has at least one room"),
        }
    }

    fn take_back(&self, place: BlockSlot) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_BYTES_MAX / self.room_bytes {
            spare.push(place);
        }
    }
}

/// A part of a block with a single owner.
#[derive(Debug)]
struct BlockSlot {
    block: Arc<AlignedBlock>,
    begin: usize,
}

/// A buffer of a fixed size, aligned to that size or to a page.
#[derive(Debug)]
pub struct PooledBuffer {
    store: &'static BufferPool,
    /// Always `Some` until the buffer is dropped.
    place: Option<BlockSlot>,
}

impl PooledBuffer {
    fn bytes(&self) -> NonNull<[u8]> {
        let start = match &self.place {
            // SAFETY: a place starts inside its block.
            Some(place) => unsafe { place.block.0.add(place.begin) },
            None => unreachable!("a room has its place until it is dropped"),
        };
        NonNull::slice_from_raw_parts(start, self.store.room_bytes)
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are inside a block that lives as long as the place. They are initialised, since a mapping
        // starts as zeros. They belong to this place alone, which is borrowed.
        unsafe { self.bytes().as_ref() }
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and mutably borrowed.
        unsafe { self.bytes().as_mut() }
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.store.take_back(place);
        }
    }
}

/// [`BLOCK_BYTES`] of memory, aligned to that size.
#[derive(Debug)]
struct AlignedBlock(NonNull<u8>);

// SAFETY: a block exclusively owns its memory, and nothing in it is bound to a thread.
unsafe impl Send for AlignedBlock {}
// SAFETY: a block itself gives no access to its memory. Places do, and each has a single owner.
unsafe impl Sync for AlignedBlock {}

impl AlignedBlock {
    fn new() -> Self {
        let twice = 2 * BLOCK_BYTES;
        let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: this is a new mapping at an address that the kernel chooses, so it replaces nothing.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), twice, read_write, private) };
        let Some(start) = mapped.ok().and_then(|start| NonNull::new(start.cast::<u8>())) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; BLOCK_BYTES]>());
        };
        let before = start.align_offset(BLOCK_BYTES);
        assert!(before < BLOCK_BYTES, "a mapping begins at a page");
        // SAFETY: the mapping is twice as large as the block, so the block and the unmapped parts before and after it
        // are inside the mapping. Nothing refers to these parts. Unmapping can only fail for lack of kernel memory,
        // and then they remain mapped.
        let block = unsafe {
            let block = start.add(before);
            if before > 0 {
                let _ = munmap(start.as_ptr().cast(), before);
            }
            let _ = munmap(block.add(BLOCK_BYTES).as_ptr().cast(), BLOCK_BYTES - before);
            block
        };
        // SAFETY: the block is owned here, and the advice does not change its content. Kernels without huge pages
        // reject it.
        #[cfg(target_os = "linux")]
        let _ = unsafe { madvise(block.as_ptr().cast(), BLOCK_BYTES, Advice::LinuxHugepage) };
        Self(block)
    }
}

impl Drop for AlignedBlock {
    fn drop(&mut self) {
        // SAFETY: the block was mapped here, and none of its places exist any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BLOCK_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM_BYTES: usize = 256 << 10;

    #[test]
    fn rooms_are_apart_and_used_again() {
        static ROOMS: BufferPool = BufferPool::new(ROOM_BYTES);
        let count = 3 * BLOCK_BYTES / ROOM_BYTES;
        let mut rooms: Vec<PooledBuffer> = (0..count).map(|_| ROOMS.take()).collect();
        for (number, room) in rooms.iter_mut().enumerate() {
            assert_eq!(room.len(), ROOM_BYTES);
            assert!(room.iter().all(|byte| *byte == 0), "a new room is empty");
            assert_eq!(room.as_ptr().align_offset(4096), 0);
            room.fill(number as u8 + 1);
        }
        for (number, room) in rooms.iter().enumerate() {
            assert!(room.iter().all(|byte| *byte == number as u8 + 1), "{number}");
        }
        let mut before: Vec<_> = rooms.iter().map(|room| room.as_ptr()).collect();
        std::thread::spawn(move || drop(rooms)).join().unwrap();
        let rooms: Vec<PooledBuffer> = (0..count).map(|_| ROOMS.take()).collect();
        let mut after: Vec<_> = rooms.iter().map(|room| room.as_ptr()).collect();
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after);
    }

    #[test]
    fn a_store_keeps_no_more_than_it_may() {
        static ROOMS: BufferPool = BufferPool::new(BLOCK_BYTES);
        let most = SPARE_BYTES_MAX / BLOCK_BYTES;
        drop((0..most + 3).map(|_| ROOMS.take()).collect::<Vec<_>>());
        assert_eq!(ROOMS.spare.lock().unwrap().len(), most);
    }
}
