//! Building and running one graph.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clef_sys::{ggml_cgraph, ggml_context, ggml_tensor};

use super::compute::Compute;
use super::store::{Metadata, Store};
use crate::error::Result;
use crate::gguf::TensorType;

/// A node or leaf of a graph, or a stored tensor that lives for `'s`.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'s> {
    pointer: NonNull<ggml_tensor>,
    shape: [usize; 4],
    kind: TensorType,
    /// Rows of contiguous elements without gaps between them.
    contiguous: bool,
    /// The graph it belongs to; 0 for stored tensors. Keeps tensors of a graph that is gone from being used.
    owner: u64,
    store: PhantomData<&'s Store>,
}

impl<'s> Tensor<'s> {
    pub(super) fn stored(pointer: NonNull<ggml_tensor>, shape: [usize; 4], kind: TensorType) -> Self {
        Self { pointer, shape, kind, contiguous: true, owner: 0, store: PhantomData }
    }

    /// Elements per dimension, row length first.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The type of its elements.
    pub fn kind(&self) -> TensorType {
        self.kind
    }

    fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

static NEXT_GRAPH: AtomicU64 = AtomicU64::new(1);

/// Data that is copied to the device when the graph runs.
enum Input<'d> {
    F32(&'d [f32]),
    I32(Vec<i32>),
    Owned(Vec<f32>),
}

/// A graph under construction. `'s` is how long the stored tensors it uses live, and the input data it borrows.
pub struct Graph<'s> {
    context: Metadata,
    graph: NonNull<ggml_cgraph>,
    id: u64,
    room: Cell<usize>,
    inputs: RefCell<Vec<(Tensor<'s>, Input<'s>)>>,
}

impl std::fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("id", &self.id).field("room", &self.room.get()).finish_non_exhaustive()
    }
}

type Unary = unsafe extern "C" fn(*mut ggml_context, *mut ggml_tensor) -> *mut ggml_tensor;
type Binary = unsafe extern "C" fn(*mut ggml_context, *mut ggml_tensor, *mut ggml_tensor) -> *mut ggml_tensor;

impl<'s> Graph<'s> {
    /// Starts a graph of up to `max_nodes` tensors.
    ///
    /// # Errors
    /// If there is no memory for its description.
    pub fn new(max_nodes: usize) -> Result<Self> {
        // SAFETY: no requirements.
        let overhead = unsafe { clef_sys::ggml_graph_overhead_custom(max_nodes, false) };
        let context = Metadata::with_extra(max_nodes, overhead)?;
        // SAFETY: the context is live and was sized for this graph.
        let graph = unsafe { clef_sys::ggml_new_graph_custom(context.0.as_ptr(), max_nodes, false) };
        let graph = NonNull::new(graph).expect("the context was sized for its graph");
        let id = NEXT_GRAPH.fetch_add(1, Ordering::Relaxed);
        Ok(Self { context, graph, id, room: Cell::new(max_nodes), inputs: RefCell::new(Vec::new()) })
    }

    fn context(&self) -> *mut ggml_context {
        self.context.0.as_ptr()
    }

    /// Books a tensor and checks that the operands are usable here.
    fn claim(&self, operands: &[Tensor<'s>]) {
        let room = self.room.get().checked_sub(1).expect("a graph with more tensors than it was sized for");
        self.room.set(room);
        for operand in operands {
            assert!(operand.owner == 0 || operand.owner == self.id, "a tensor of another graph");
        }
    }

    fn wrap(&self, pointer: *mut ggml_tensor, shape: [usize; 4], kind: TensorType, contiguous: bool) -> Tensor<'s> {
        let pointer = NonNull::new(pointer).expect("the context was sized for its tensors");
        Tensor { pointer, shape, kind, contiguous, owner: self.id, store: PhantomData }
    }

    fn unary(&self, a: Tensor<'s>, operation: Unary, shape: [usize; 4]) -> Tensor<'s> {
        self.claim(&[a]);
        // SAFETY: context and operand are live, there is room, and the caller checked what `operation` asserts.
        let result = unsafe { operation(self.context(), a.pointer.as_ptr()) };
        self.wrap(result, shape, TensorType::F32, true)
    }

    fn binary(&self, a: Tensor<'s>, b: Tensor<'s>, operation: Binary, shape: [usize; 4]) -> Tensor<'s> {
        self.claim(&[a, b]);
        // SAFETY: context and operands are live, there is room, and the caller checked what `operation` asserts.
        let result = unsafe { operation(self.context(), a.pointer.as_ptr(), b.pointer.as_ptr()) };
        self.wrap(result, shape, TensorType::F32, true)
    }

    fn input(&self, shape: [usize; 4], kind: TensorType, data: Input<'s>) -> Tensor<'s> {
        assert!(shape.iter().all(|&length| length > 0), "an empty input: {shape:?}");
        self.claim(&[]);
        let lengths = shape.map(|length| length as i64);
        // SAFETY: the context is live and has room; the shape is not empty.
        let tensor = unsafe { clef_sys::ggml_new_tensor(self.context(), kind.as_raw(), 4, lengths.as_ptr()) };
        // SAFETY: the tensor was just made.
        unsafe { clef_sys::ggml_set_input(tensor) };
        let tensor = self.wrap(tensor, shape, kind, true);
        self.inputs.borrow_mut().push((tensor, data));
        tensor
    }

    /// A matrix of 32-bit floats, `rows` rows of `width`, read when the graph runs.
    ///
    /// # Panics
    /// If `data` does not hold just that many.
    pub fn matrix(&self, data: &'s [f32], width: usize, rows: usize) -> Tensor<'s> {
        assert_eq!(data.len(), width * rows, "an input of {width} x {rows}");
        self.input([width, rows, 1, 1], TensorType::F32, Input::F32(data))
    }

    /// The same from a vector that the graph keeps.
    ///
    /// # Panics
    /// If `data` does not hold just that many.
    pub fn owned_matrix(&self, data: Vec<f32>, width: usize, rows: usize) -> Tensor<'s> {
        assert_eq!(data.len(), width * rows, "an input of {width} x {rows}");
        self.input([width, rows, 1, 1], TensorType::F32, Input::Owned(data))
    }

    /// A list of row numbers.
    pub fn indices(&self, data: Vec<i32>) -> Tensor<'s> {
        self.input([data.len(), 1, 1, 1], TensorType::I32, Input::I32(data))
    }

    /// `weights^T * x`: rows of `weights` against rows of `x`; `[k, m, ...] x [k, n, ...] -> [m, n, ...]`.
    ///
    /// # Panics
    /// If the row lengths differ, or the outer dimensions cannot be matched.
    pub fn mul_mat(&self, weights: Tensor<'s>, x: Tensor<'s>) -> Tensor<'s> {
        assert!(
            weights.shape[0] == x.shape[0]
                && x.shape[2].is_multiple_of(weights.shape[2])
                && x.shape[3].is_multiple_of(weights.shape[3])
                && x.kind == TensorType::F32,
            "a product of {:?} and {:?}",
            weights.shape,
            x.shape
        );
        let shape = [weights.shape[1], x.shape[1], x.shape[2], x.shape[3]];
        self.binary(weights, x, clef_sys::ggml_mul_mat, shape)
    }

    /// Sums of outer products, `a * b^T` of the columns' vectors: `[m, k, ...], [n, k, ...] -> [m, n, ...]`. It is the
    /// product with a transposed matrix without transposing it.
    ///
    /// # Panics
    /// If the numbers of rows differ, the outer dimensions cannot be matched, `a` has gaps, or one is not of 32-bit
    /// floats.
    pub fn outer_products(&self, a: Tensor<'s>, b: Tensor<'s>) -> Tensor<'s> {
        assert!(
            a.shape[1] == b.shape[1]
                && b.shape[2].is_multiple_of(a.shape[2])
                && b.shape[3].is_multiple_of(a.shape[3])
                && a.contiguous
                && a.kind == TensorType::F32
                && b.kind == TensorType::F32,
            "outer products of {:?} and {:?}",
            a.shape,
            b.shape
        );
        self.binary(a, b, clef_sys::ggml_out_prod, [a.shape[0], b.shape[0], b.shape[2], b.shape[3]])
    }

    fn repeating(&self, a: Tensor<'s>, b: Tensor<'s>, operation: Binary) -> Tensor<'s> {
        let fits = a.shape.iter().zip(b.shape).all(|(&a, b)| a.is_multiple_of(b));
        assert!(fits && a.kind == TensorType::F32 && b.kind == TensorType::F32, "{:?} onto {:?}", b.shape, a.shape);
        self.binary(a, b, operation, a.shape)
    }

    /// `a + b`, with `b` repeated to the shape of `a`.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn add(&self, a: Tensor<'s>, b: Tensor<'s>) -> Tensor<'s> {
        self.repeating(a, b, clef_sys::ggml_add)
    }

    /// `a - b`, with `b` repeated to the shape of `a`.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn sub(&self, a: Tensor<'s>, b: Tensor<'s>) -> Tensor<'s> {
        self.repeating(a, b, clef_sys::ggml_sub)
    }

    /// `a * b` element by element, with `b` repeated to the shape of `a`.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn mul(&self, a: Tensor<'s>, b: Tensor<'s>) -> Tensor<'s> {
        self.repeating(a, b, clef_sys::ggml_mul)
    }

    /// Absolute values.
    pub fn abs(&self, a: Tensor<'s>) -> Tensor<'s> {
        self.unary(self.contiguous(a), clef_sys::ggml_abs, a.shape)
    }

    /// GELU with the error function, as PyTorch computes it by default.
    pub fn gelu(&self, a: Tensor<'s>) -> Tensor<'s> {
        self.unary(self.contiguous(a), clef_sys::ggml_gelu_erf, a.shape)
    }

    /// Sums of rows: `[n, m] -> [1, m]`.
    pub fn sum_rows(&self, a: Tensor<'s>) -> Tensor<'s> {
        self.unary(a, clef_sys::ggml_sum_rows, [1, a.shape[1], a.shape[2], a.shape[3]])
    }

    /// Rows scaled to a length of one; shorter than `epsilon` count as that long.
    pub fn normalize(&self, a: Tensor<'s>, epsilon: f32) -> Tensor<'s> {
        let a = self.contiguous(a);
        self.claim(&[a]);
        // SAFETY: context and operand are live and there is room.
        let result = unsafe { clef_sys::ggml_l2_norm(self.context(), a.pointer.as_ptr(), epsilon) };
        self.wrap(result, a.shape, TensorType::F32, true)
    }

    /// Layer normalization of rows, with weight and bias.
    ///
    /// # Panics
    /// If weight and bias are not as long as the rows.
    pub fn layer_norm(&self, a: Tensor<'s>, weight: Tensor<'s>, bias: Tensor<'s>, epsilon: f32) -> Tensor<'s> {
        let a = self.contiguous(a);
        self.claim(&[a]);
        // SAFETY: context and operand are live and there is room.
        let result = unsafe { clef_sys::ggml_norm(self.context(), a.pointer.as_ptr(), epsilon) };
        let normed = self.wrap(result, a.shape, TensorType::F32, true);
        self.add(self.mul(normed, weight), bias)
    }

    /// All elements times a number.
    pub fn scale(&self, a: Tensor<'s>, factor: f32) -> Tensor<'s> {
        let a = self.contiguous(a);
        self.claim(&[a]);
        // SAFETY: context and operand are live and there is room.
        let result = unsafe { clef_sys::ggml_scale(self.context(), a.pointer.as_ptr(), factor) };
        self.wrap(result, a.shape, TensorType::F32, true)
    }

    /// Softmax over rows of `a * factor`, shifted by the row's maximum.
    pub fn softmax(&self, a: Tensor<'s>, factor: f32) -> Tensor<'s> {
        let a = self.contiguous(a);
        self.claim(&[a]);
        // SAFETY: context and operand are live, there is room, and a missing mask is allowed.
        let result = unsafe {
            clef_sys::ggml_soft_max_ext(self.context(), a.pointer.as_ptr(), std::ptr::null_mut(), factor, 0.0)
        };
        self.wrap(result, a.shape, TensorType::F32, true)
    }

    /// Rows of a matrix by number: `[n, m], [k] -> [n, k]`. The numbers must be below `m`.
    ///
    /// # Panics
    /// If `rows` is not a list of numbers or `a` not a matrix.
    pub fn get_rows(&self, a: Tensor<'s>, rows: Tensor<'s>) -> Tensor<'s> {
        assert!(rows.kind == TensorType::I32 && a.shape[2] == 1 && a.shape[3] == 1, "rows of {:?}", a.shape);
        self.binary(a, rows, clef_sys::ggml_get_rows, [a.shape[0], rows.shape[0], 1, 1])
    }

    /// `b` behind `a` along an axis: `[n, m], [k, m] -> [n + k, m]` along axis 0.
    ///
    /// # Panics
    /// If another dimension differs.
    pub fn concat(&self, a: Tensor<'s>, b: Tensor<'s>, axis: usize) -> Tensor<'s> {
        let agree = (0..4).all(|i| i == axis || a.shape[i] == b.shape[i]);
        assert!(axis < 4 && agree && a.kind == b.kind, "{:?} and {:?} along axis {axis}", a.shape, b.shape);
        self.claim(&[a, b]);
        let mut shape = a.shape;
        shape[axis] += b.shape[axis];
        // SAFETY: context and operands are live, there is room, and all dimensions but the axis agree.
        let result =
            unsafe { clef_sys::ggml_concat(self.context(), a.pointer.as_ptr(), b.pointer.as_ptr(), axis as i32) };
        self.wrap(result, shape, a.kind, true)
    }

    /// The same elements without gaps; nothing is done where there are none.
    pub fn contiguous(&self, a: Tensor<'s>) -> Tensor<'s> {
        if a.contiguous { a } else { self.unary(a, clef_sys::ggml_cont, a.shape) }
    }

    /// Rows and columns exchanged (a view).
    pub fn transpose(&self, a: Tensor<'s>) -> Tensor<'s> {
        self.permute(a, [1, 0, 2, 3])
    }

    /// Dimensions reordered (a view): dimension `i` of `a` becomes dimension `order[i]`.
    ///
    /// # Panics
    /// If `order` is not a permutation.
    pub fn permute(&self, a: Tensor<'s>, order: [usize; 4]) -> Tensor<'s> {
        let mut shape = [0; 4];
        for (from, &to) in order.iter().enumerate() {
            shape[to] = a.shape[from];
        }
        assert!(!shape.contains(&0), "{order:?} is no order of dimensions");
        self.claim(&[a]);
        let [first, second, third, fourth] = order.map(|axis| axis as i32);
        // SAFETY: context and operand are live, there is room, and `order` is a permutation.
        let result =
            unsafe { clef_sys::ggml_permute(self.context(), a.pointer.as_ptr(), first, second, third, fourth) };
        self.wrap(result, shape, a.kind, false)
    }

    /// The same elements in another shape.
    ///
    /// # Panics
    /// If the number of elements changes or `a` has gaps.
    pub fn reshape(&self, a: Tensor<'s>, shape: [usize; 4]) -> Tensor<'s> {
        assert!(a.contiguous && shape.iter().product::<usize>() == a.elements(), "{:?} as {shape:?}", a.shape);
        self.claim(&[a]);
        let [first, second, third, fourth] = shape.map(|length| length as i64);
        // SAFETY: context and operand are live, there is room, the operand is contiguous and has as many elements.
        let result =
            unsafe { clef_sys::ggml_reshape_4d(self.context(), a.pointer.as_ptr(), first, second, third, fourth) };
        self.wrap(result, shape, a.kind, true)
    }

    /// `count` rows of a matrix from `start` on (a view).
    ///
    /// # Panics
    /// If there are not that many.
    pub fn rows(&self, a: Tensor<'s>, start: usize, count: usize) -> Tensor<'s> {
        assert!(
            a.contiguous && a.shape[2] == 1 && a.shape[3] == 1 && count > 0 && start + count <= a.shape[1],
            "rows {start} to {} of {:?}",
            start + count,
            a.shape
        );
        let row = a.kind.row_bytes(a.shape[0] as u64).expect("a tensor's rows fit its type") as usize;
        self.claim(&[a]);
        // SAFETY: context and operand are live, there is room, and the rows lie inside the operand.
        let result = unsafe {
            clef_sys::ggml_view_2d(
                self.context(),
                a.pointer.as_ptr(),
                a.shape[0] as i64,
                count as i64,
                row,
                start * row,
            )
        };
        self.wrap(result, [a.shape[0], count, 1, 1], a.kind, true)
    }

    /// One element of a list of floats (a view).
    ///
    /// # Panics
    /// If there is no such element.
    pub fn element(&self, a: Tensor<'s>, index: usize) -> Tensor<'s> {
        assert!(a.contiguous && a.kind == TensorType::F32 && index < a.elements(), "element {index} of {:?}", a.shape);
        self.claim(&[a]);
        // SAFETY: context and operand are live, there is room, and the element lies inside the operand.
        let result = unsafe { clef_sys::ggml_view_1d(self.context(), a.pointer.as_ptr(), 1, index * 4) };
        self.wrap(result, [1; 4], a.kind, true)
    }

    /// Writes `from` over `to` when the graph runs, in the order of these calls.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn write(&self, from: Tensor<'s>, to: Tensor<'s>) {
        assert_eq!(from.shape, to.shape, "a copy between shapes");
        let copy = self.binary(from, to, clef_sys::ggml_cpy, to.shape);
        self.expand(copy);
    }

    /// Puts a tensor, and what it needs, next in the order of computation. Memory of intermediate results is shared
    /// along that order, so expanding a large computation piece by piece bounds it.
    pub fn expand(&self, tensor: Tensor<'s>) {
        assert!(tensor.owner == self.id, "a tensor of another graph");
        // SAFETY: graph and tensor are live and of one context; every node was booked against the graph's size.
        unsafe { clef_sys::ggml_build_forward_expand(self.graph.as_ptr(), tensor.pointer.as_ptr()) };
    }

    /// Runs the graph and returns the elements of `outputs`.
    ///
    /// # Errors
    /// If there is not enough memory on the device, or the computation fails.
    ///
    /// # Panics
    /// If the graph is larger than `compute` takes, or an output is not of 32-bit floats.
    pub fn run(self, compute: &mut Compute, outputs: &[Tensor<'s>]) -> Result<Vec<Vec<f32>>> {
        self.run_timed(compute, outputs, || Duration::ZERO).map(|(values, _)| values)
    }

    /// The same, and the time that the computation took by a clock, without what comes before and after it.
    pub(crate) fn run_timed(
        self,
        compute: &mut Compute,
        outputs: &[Tensor<'s>],
        clock: impl Fn() -> Duration,
    ) -> Result<(Vec<Vec<f32>>, Duration)> {
        for output in outputs {
            assert!(output.kind == TensorType::F32 && output.contiguous, "an output of {:?}", output.kind);
            // SAFETY: the tensor is live.
            unsafe { clef_sys::ggml_set_output(output.pointer.as_ptr()) };
            self.expand(*output);
        }
        // SAFETY: the graph is live.
        let nodes = unsafe { clef_sys::ggml_graph_n_nodes(self.graph.as_ptr()) };
        assert!(nodes as usize <= compute.max_nodes(), "{nodes} nodes, the limit is {}", compute.max_nodes());
        compute.allocate(self.graph.as_ptr(), nodes as usize)?;
        for (tensor, data) in self.inputs.borrow().iter() {
            let (bytes, length) = match data {
                Input::F32(values) => (values.as_ptr().cast::<c_void>(), size_of_val(*values)),
                Input::Owned(values) => (values.as_ptr().cast(), size_of_val(values.as_slice())),
                Input::I32(values) => (values.as_ptr().cast(), size_of_val(values.as_slice())),
            };
            // An input that nothing reads has no memory.
            // SAFETY: the tensor is live.
            if unsafe { (*tensor.pointer.as_ptr()).buffer }.is_null() {
                continue;
            }
            // SAFETY: the tensor is live and allocated, and takes exactly `length` bytes.
            unsafe { clef_sys::ggml_backend_tensor_set(tensor.pointer.as_ptr(), bytes, 0, length) };
        }
        let start = clock();
        compute.run(self.graph.as_ptr())?;
        let took = clock().saturating_sub(start);
        Ok((outputs.iter().map(read).collect(), took))
    }
}

fn read(tensor: &Tensor<'_>) -> Vec<f32> {
    let mut values = vec![0_f32; tensor.elements()];
    let bytes = size_of_val(values.as_slice());
    // SAFETY: the tensor is live, computed, of 32-bit floats without gaps, and holds exactly that many bytes.
    unsafe {
        clef_sys::ggml_backend_tensor_get(tensor.pointer.as_ptr(), values.as_mut_ptr().cast::<c_void>(), 0, bytes);
    }
    values
}
