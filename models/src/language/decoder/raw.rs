//! Tensors over memory of ours, bound and run through ONNX Runtime's C interface.
//!
//! `ort` copies borrowed memory when it is bound as an input, and makes a value of every output at
//! every run. A decoder step needs neither: its cache is one block of memory that is input and
//! output at once, and the logits have their place before they are computed.

use std::ffi::{CStr, CString, c_void};
use std::ptr::{self, NonNull};

use memmap2::MmapMut;
use ort::AsPointer;
use ort::session::Session;
use ort::sys::{
    ONNXTensorElementDataType as Kind, OrtAllocatorType, OrtIoBinding, OrtMemType, OrtMemoryInfo,
    OrtStatusPtr, OrtTensorTypeAndShapeInfo, OrtValue,
};

use super::error::DecoderError;

/// Turns a status into a result.
fn check(status: OrtStatusPtr) -> Result<(), DecoderError> {
    // SAFETY: the status comes straight from a call of ONNX Runtime, which gives it to its caller.
    unsafe { ort::Error::result_from_status(status) }.map_err(DecoderError::step)
}

fn made<T>(pointer: *mut T) -> Result<NonNull<T>, DecoderError> {
    NonNull::new(pointer).ok_or_else(|| DecoderError::Step("ONNX Runtime made nothing".to_owned()))
}

/// A kind of number that tensors here have.
pub(super) trait Number: Copy + 'static {
    /// As ONNX Runtime calls it.
    const KIND: Kind;
}

macro_rules! numbers {
    ($($type:ty => $kind:ident),*) => { $(impl Number for $type { const KIND: Kind = Kind::$kind; })* };
}
numbers!(
    f32 => ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
    half::f16 => ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
    i64 => ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
    bool => ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL
);

/// Numbers at a fixed place, zero at first; pages never touched take no memory.
#[derive(Debug)]
pub(super) struct Buffer<T: Number> {
    memory: MmapMut,
    length: usize,
    number: std::marker::PhantomData<T>,
}

impl<T: Number> Buffer<T> {
    /// `length` zeros.
    pub fn zeroed(length: usize) -> Result<Self, DecoderError> {
        let bytes = length
            .checked_mul(size_of::<T>())
            .ok_or_else(|| DecoderError::NoMemory(std::io::ErrorKind::OutOfMemory.into()))?;
        let memory = MmapMut::map_anon(bytes.max(1)).map_err(DecoderError::NoMemory)?;
        // A huge page for the first token of every head would be most of the cache at once. Where the
        // kernel knows no such advice there are no huge pages either.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        Ok(Self {
            memory,
            length,
            number: std::marker::PhantomData,
        })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping has room for `length` numbers, is aligned to a page, and holds zeros or
        // what was written as T; all zeros are a valid T for each of the four kinds.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.length) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is exclusive: ONNX Runtime writes during `run` only, which
        // borrows the engine that owns this buffer.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.length) }
    }

    /// A tensor over the numbers from `start` on; the memory must outlive every run it is bound in.
    pub fn tensor(
        &mut self,
        host: &Host,
        start: usize,
        shape: &[i64],
    ) -> Result<Value, DecoderError> {
        let count = shape.iter().try_fold(1_usize, |product, &size| {
            product.checked_mul(usize::try_from(size).ok()?)
        });
        let Some(count) = count.filter(|&count| {
            start
                .checked_add(count)
                .is_some_and(|end| end <= self.length)
        }) else {
            return Err(DecoderError::Unexpected {
                found: format!("a view {shape:?} from {start} on"),
                expected: format!("at most {} numbers (this is a bug)", self.length),
            });
        };
        let mut value = ptr::null_mut();
        // SAFETY: the range was checked to lie inside the mapping, which does not move; the shape is
        // copied by ONNX Runtime.
        let status = unsafe {
            let first = self.memory.as_mut_ptr().cast::<T>().add(start);
            (ort::api().CreateTensorWithDataAsOrtValue)(
                host.0.as_ptr(),
                first.cast::<c_void>(),
                count * size_of::<T>(),
                shape.as_ptr(),
                shape.len(),
                T::KIND,
                &raw mut value,
            )
        };
        check(status)?;
        Ok(Value(made(value)?))
    }
}

/// "Memory of the CPU", as ONNX Runtime wants to be told.
#[derive(Debug)]
pub(super) struct Host(NonNull<OrtMemoryInfo>);

// SAFETY: the object is not changed after it was made.
unsafe impl Send for Host {}

impl Host {
    pub fn new() -> Result<Self, DecoderError> {
        let mut info = ptr::null_mut();
        // SAFETY: the output is ours.
        check(unsafe {
            (ort::api().CreateCpuMemoryInfo)(
                OrtAllocatorType::OrtDeviceAllocator,
                OrtMemType::OrtMemTypeDefault,
                &raw mut info,
            )
        })?;
        Ok(Self(made(info)?))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: made by `new`, released once.
        unsafe { (ort::api().ReleaseMemoryInfo)(self.0.as_ptr()) }
    }
}

/// A tensor: over memory of ours, or an output that ONNX Runtime allocated.
#[derive(Debug)]
pub(super) struct Value(NonNull<OrtValue>);

// SAFETY: an OrtValue is a counted reference to a tensor; it has no ties to a thread.
unsafe impl Send for Value {}

impl Value {
    /// Sizes of the tensor.
    pub fn shape(&self) -> Result<Vec<usize>, DecoderError> {
        self.described(|info| {
            let mut count = 0;
            // SAFETY: the info is live.
            check(unsafe { (ort::api().GetDimensionsCount)(info, &raw mut count) })?;
            let mut sizes = vec![0_i64; count];
            // SAFETY: as above, and the list has `count` places.
            check(unsafe { (ort::api().GetDimensions)(info, sizes.as_mut_ptr(), count) })?;
            Ok(sizes
                .into_iter()
                .map(|size| usize::try_from(size).unwrap_or(0))
                .collect())
        })
    }

    fn kind(&self) -> Result<i32, DecoderError> {
        self.described(|info| {
            let mut kind = Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
            // SAFETY: the info is live.
            check(unsafe { (ort::api().GetTensorElementType)(info, &raw mut kind) })?;
            Ok(kind as i32)
        })
    }

    /// Asks what ONNX Runtime says of the tensor.
    fn described<R>(
        &self,
        read: impl FnOnce(*const OrtTensorTypeAndShapeInfo) -> Result<R, DecoderError>,
    ) -> Result<R, DecoderError> {
        let mut info = ptr::null_mut();
        // SAFETY: the value is live; the info is released below.
        check(unsafe { (ort::api().GetTensorTypeAndShape)(self.0.as_ptr(), &raw mut info) })?;
        let info = made(info)?.as_ptr();
        let answer = read(info);
        // SAFETY: made above, released once.
        unsafe { (ort::api().ReleaseTensorTypeAndShapeInfo)(info) };
        answer
    }

    /// The numbers.
    pub fn numbers<T: Number>(&self) -> Result<&[T], DecoderError> {
        let count = self.shape()?.iter().product::<usize>();
        let kind = self.kind()?;
        if kind != T::KIND as i32 {
            return Err(DecoderError::Unexpected {
                found: format!("numbers of kind {kind}"),
                expected: format!("kind {}", T::KIND as i32),
            });
        }
        let mut data = ptr::null_mut();
        // SAFETY: the value is a live tensor.
        check(unsafe { (ort::api().GetTensorMutableData)(self.0.as_ptr(), &raw mut data) })?;
        if count == 0 {
            return Ok(&[]);
        }
        let data = made(data)?;
        // SAFETY: ONNX Runtime holds `count` numbers of this kind there as long as the value lives.
        Ok(unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<T>(), count) })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: this reference is released once; bindings hold their own.
        unsafe { (ort::api().ReleaseValue)(self.0.as_ptr()) }
    }
}

/// Which tensor is which input and output, kept from run to run.
#[derive(Debug)]
pub(super) struct Binding(NonNull<OrtIoBinding>);

// SAFETY: a binding has no ties to a thread; it is used through `&mut`.
unsafe impl Send for Binding {}

impl Binding {
    /// For this session, which must outlive it.
    pub fn new(session: &Session) -> Result<Self, DecoderError> {
        let mut binding = ptr::null_mut();
        // SAFETY: the session is live; ONNX Runtime does not change it here.
        check(unsafe { (ort::api().CreateIoBinding)(session.ptr().cast_mut(), &raw mut binding) })?;
        Ok(Self(made(binding)?))
    }

    /// The tensor's memory is read at every run until another is bound.
    pub fn input(&mut self, name: &CStr, value: &Value) -> Result<(), DecoderError> {
        // SAFETY: all three are live; the binding takes a reference of its own.
        check(unsafe { (ort::api().BindInput)(self.0.as_ptr(), name.as_ptr(), value.0.as_ptr()) })
    }

    /// The tensor's memory is written at every run until another is bound.
    pub fn output(&mut self, name: &CStr, value: &Value) -> Result<(), DecoderError> {
        // SAFETY: as for inputs.
        check(unsafe { (ort::api().BindOutput)(self.0.as_ptr(), name.as_ptr(), value.0.as_ptr()) })
    }

    /// Runs the session on what is bound.
    pub fn run(&mut self, session: &mut Session) -> Result<(), DecoderError> {
        // SAFETY: the binding belongs to this session, which is borrowed exclusively, and the engine
        // that owns both owns all memory bound; without options the defaults hold.
        check(unsafe {
            (ort::api().RunWithBinding)(session.ptr_mut(), ptr::null(), self.0.as_ptr())
        })
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // SAFETY: made by `new`, released once.
        unsafe { (ort::api().ReleaseIoBinding)(self.0.as_ptr()) }
    }
}

/// Runs a session with these inputs; ONNX Runtime allocates the outputs.
pub(super) fn run(
    session: &mut Session,
    inputs: &[(&CStr, &Value)],
    outputs: &[&CStr],
) -> Result<Vec<Value>, DecoderError> {
    let names: Vec<_> = inputs.iter().map(|(name, _)| name.as_ptr()).collect();
    let values: Vec<_> = inputs
        .iter()
        .map(|(_, value)| value.0.as_ptr().cast_const())
        .collect();
    let wanted: Vec<_> = outputs.iter().map(|name| name.as_ptr()).collect();
    let mut results: Vec<*mut OrtValue> = vec![ptr::null_mut(); outputs.len()];
    // SAFETY: all lists are as long as said and outlive the call; null outputs are allocated by ONNX
    // Runtime and belong to the caller.
    let status = unsafe {
        (ort::api().Run)(
            session.ptr_mut(),
            ptr::null(),
            names.as_ptr(),
            values.as_ptr(),
            names.len(),
            wanted.as_ptr(),
            wanted.len(),
            results.as_mut_ptr(),
        )
    };
    check(status)?;
    results
        .into_iter()
        .map(|value| made(value).map(Value))
        .collect()
}

/// A name as ONNX Runtime takes it.
pub(super) fn c_name(name: &str) -> Result<CString, DecoderError> {
    CString::new(name).map_err(|_| DecoderError::Unexpected {
        found: format!("a name with a zero byte: {name:?}"),
        expected: "a name".to_owned(),
    })
}
