"""Models of packages of PyPI at small sizes, for scripts/zoo: each function gives a module and its inputs."""
import math

import torch
from torch import nn


def ramp(*sizes):
    return torch.linspace(-1, 1, math.prod(sizes)).reshape(sizes)


def image(side, channels=3):
    return ramp(1, channels, side, side)


def volume(side):
    return ramp(1, 1, side, side, side)


def words(count):
    return (torch.arange(count) * 7 % 50).reshape(1, count)


class Sample(nn.Module):
    """A network of diffusers, without the class around its result."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, *inputs):
        return self.network(*inputs).sample


# --- vit-pytorch

SMALL = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 64, "depth": 2, "heads": 4, "mlp_dim": 128}


def vit():
    from vit_pytorch import ViT
    return ViT(**SMALL), (image(32),)


def simple_vit():
    from vit_pytorch import SimpleViT
    return SimpleViT(**SMALL), (image(32),)


def cait():
    from vit_pytorch.cait import CaiT
    return CaiT(**SMALL, cls_depth=1), (image(32),)


def xcit():
    from vit_pytorch.xcit import XCiT
    return XCiT(**SMALL, cls_depth=1), (image(32),)


def t2t():
    from vit_pytorch.t2t import T2TViT
    return T2TViT(dim=64, image_size=64, depth=2, heads=2, mlp_dim=128, num_classes=10, t2t_layers=((7, 4), (3, 2), (3, 2))), (image(64),)


def pit():
    from vit_pytorch.pit import PiT
    return PiT(image_size=64, patch_size=8, dim=32, num_classes=10, depth=(1, 1, 1), heads=2, mlp_dim=64), (image(64),)


def levit():
    from vit_pytorch.levit import LeViT
    return LeViT(image_size=64, num_classes=10, stages=2, dim=(32, 48), depth=1, heads=(2, 3), mlp_mult=2), (image(64),)


def cvt():
    from vit_pytorch.cvt import CvT
    return CvT(num_classes=10, s1_emb_dim=16, s2_emb_dim=32, s2_heads=2, s3_emb_dim=48, s3_heads=3, s3_depth=2), (image(64),)


def regionvit():
    from vit_pytorch.regionvit import RegionViT
    return RegionViT(dim=(16, 32, 48, 64), depth=(1, 1, 1, 1), window_size=2, num_classes=10), (image(128),)


def maxvit():
    from vit_pytorch.max_vit import MaxViT
    return MaxViT(num_classes=10, dim_conv_stem=16, dim=16, dim_head=8, depth=(1, 1), window_size=4), (image(64),)


def nest():
    from vit_pytorch.nest import NesT
    return NesT(image_size=64, patch_size=4, dim=32, heads=2, num_hierarchies=2, block_repeats=(1, 1), num_classes=10), (image(64),)


# --- x-transformers and its neighbours

def decoder():
    from x_transformers import Decoder, TransformerWrapper
    layers = Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)
    return TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers), (words(16),)


def encoder_alibi():
    from x_transformers import Encoder, TransformerWrapper
    layers = Encoder(dim=64, depth=2, heads=4, alibi_pos_bias=True, attn_num_mem_kv=2)
    return TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers), (words(16),)


def performer():
    from performer_pytorch import PerformerLM
    return PerformerLM(num_tokens=50, max_seq_len=32, dim=32, depth=2, heads=2), (words(32),)


def linformer():
    from linformer import LinformerLM
    return LinformerLM(num_tokens=50, dim=32, seq_len=32, depth=2, heads=2, k=8), (words(32),)


def nystromformer():
    from nystrom_attention import Nystromformer
    return Nystromformer(dim=32, dim_head=8, heads=4, depth=2, num_landmarks=8, pinv_iterations=4), (ramp(1, 20, 32),)


def perceiver():
    from perceiver_pytorch import Perceiver
    return Perceiver(input_channels=3, input_axis=2, num_freq_bands=4, max_freq=10., depth=2, num_latents=8, latent_dim=32,
                     cross_heads=1, latent_heads=2, num_classes=5), (ramp(1, 16, 16, 3),)


def conformer():
    from conformer import Conformer
    return Conformer(dim=32, depth=2, dim_head=8, heads=4, ff_mult=2, conv_expansion_factor=2, conv_kernel_size=7), (ramp(1, 20, 32),)


def residual_vq():
    from vector_quantize_pytorch import ResidualVQ
    return ResidualVQ(dim=16, num_quantizers=3, codebook_size=32), (ramp(1, 10, 16),)


# --- diffusers

UNET = {"in_channels": 4, "out_channels": 4, "sample_size": 16, "layers_per_block": 1, "block_out_channels": (32, 64),
        "norm_num_groups": 8}


def unet():
    from diffusers import UNet2DModel
    return Sample(UNet2DModel(**UNET, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                              up_block_types=("AttnUpBlock2D", "UpBlock2D"))), (image(16, 4), torch.tensor([7]))


def unet_of_text():
    from diffusers import UNet2DConditionModel
    network = UNet2DConditionModel(**UNET, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), attention_head_dim=8,
                                   up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=32)
    return Sample(network), (image(16, 4), torch.tensor(7), ramp(1, 5, 32))


def autoencoder():
    from diffusers import VQModel
    return Sample(VQModel(block_out_channels=(16, 32), norm_num_groups=8, down_block_types=("DownEncoderBlock2D",) * 2,
                          up_block_types=("UpDecoderBlock2D",) * 2)), (image(32),)


def dit():
    from diffusers import DiTTransformer2DModel
    return Sample(DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=8, num_layers=2,
                                        sample_size=8, num_embeds_ada_norm=10, norm_num_groups=8)), (
        image(8, 4), torch.tensor([7]), torch.tensor([3]))


def sd3():
    from diffusers import SD3Transformer2DModel
    return Sample(SD3Transformer2DModel(sample_size=8, in_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
                                        joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=32, out_channels=4,
                                        pos_embed_max_size=16)), (image(8, 4), ramp(1, 5, 32), ramp(1, 32), torch.tensor([7]))


# --- segmentation-models-pytorch and monai

def smp_unet():
    import segmentation_models_pytorch as smp
    return smp.Unet("resnet18", encoder_weights=None, classes=3), (image(64),)


def smp_unetplusplus():
    import segmentation_models_pytorch as smp
    return smp.UnetPlusPlus("resnet18", encoder_weights=None, classes=3, decoder_attention_type="scse"), (image(64),)


def smp_deeplab():
    import segmentation_models_pytorch as smp
    return smp.DeepLabV3Plus("resnet18", encoder_weights=None, classes=3), (image(64),)


def smp_manet():
    import segmentation_models_pytorch as smp
    return smp.MAnet("efficientnet-b0", encoder_weights=None, classes=3), (image(64),)


def smp_segformer():
    import segmentation_models_pytorch as smp
    return smp.Segformer("mit_b0", encoder_weights=None, classes=3), (image(64),)


def monai_unet():
    from monai.networks.nets import UNet
    return UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2), num_res_units=1), (volume(16),)


def monai_dynunet():
    from monai.networks.nets import DynUNet
    return DynUNet(spatial_dims=2, in_channels=1, out_channels=2, kernel_size=[3, 3, 3], strides=[1, 2, 2],
                   upsample_kernel_size=[2, 2], filters=[8, 16, 32]), (image(32, 1),)


def monai_unetr():
    from monai.networks.nets import UNETR
    return UNETR(in_channels=1, out_channels=2, img_size=(32, 32, 32), feature_size=8, hidden_size=48, mlp_dim=64,
                 num_heads=4), (volume(32),)


def monai_swin():
    from monai.networks.nets import SwinUNETR
    return SwinUNETR(in_channels=1, out_channels=2, feature_size=12), (volume(64),)


# --- ultralytics, spandrel, kornia and others

def yolo8():
    from ultralytics.nn.tasks import DetectionModel
    return DetectionModel("yolov8n.yaml", ch=3, nc=5, verbose=False), (image(64),)


def yolo11():
    from ultralytics.nn.tasks import DetectionModel
    return DetectionModel("yolo11n.yaml", ch=3, nc=5, verbose=False), (image(64),)


def rtdetr():
    from ultralytics.nn.tasks import RTDETRDetectionModel
    return RTDETRDetectionModel("rtdetr-l.yaml", ch=3, nc=5, verbose=False), (image(64),)


def esrgan():
    from spandrel.architectures.ESRGAN import ESRGAN
    return ESRGAN(num_filters=16, num_blocks=2, scale=2), (image(16),)


def swinir():
    from spandrel.architectures.SwinIR import SwinIR
    return SwinIR(img_size=16, embed_dim=24, depths=[2, 2], num_heads=[2, 2], window_size=8, upscale=2,
                  upsampler="pixelshuffledirect"), (image(16),)


def nafnet():
    from spandrel.architectures.NAFNet import NAFNet
    return NAFNet(width=8, middle_blk_num=1, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1]), (image(16),)


def hynet():
    from kornia.feature import HyNet
    return HyNet(pretrained=False), (ramp(4, 1, 32, 32),)


def clip():
    from open_clip import CLIP
    return CLIP(embed_dim=32, vision_cfg={"layers": 2, "width": 64, "head_width": 16, "patch_size": 8, "image_size": 32},
                text_cfg={"context_length": 16, "vocab_size": 60, "width": 32, "heads": 2, "layers": 2}), (image(32), words(16))


def tabnet():
    from pytorch_tabnet.tab_network import TabNet
    return TabNet(8, 3, cat_idxs=[], cat_dims=[], group_attention_matrix=torch.eye(8)), (ramp(4, 8),)


def demucs():
    from demucs.htdemucs import HTDemucs
    return HTDemucs(["a", "b"], channels=8, depth=3, t_layers=1, nfft=256, bottom_channels=32, segment=1, samplerate=2000,
                    dconv_mode=0), (ramp(1, 2, 2000),)
