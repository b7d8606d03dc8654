//! Domain synonyms: words for the same thing in the names and descriptions of
//! tools, in English and Chinese.
//!
//! A word may be in several groups; it only stands for words that share a group
//! with it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words::stem;

/// Groups of synonyms, one per line. Chinese words have two characters, like
/// the bigrams that texts are cut into.
const GROUPS: &[&str] = &[
    "create add new make insert generate post register 创建 新建 添加 新增 生成",
    "delete remove erase discard drop clear uninstall 删除 移除 清除",
    "update edit modify change alter revise adjust patch 更新 修改 编辑 更改",
    "list enumerate browse catalog 列出 列表",
    "search lookup query discover locate seek 搜索 查找 查询 检索",
    "retrieve fetch obtain read load download 获取 读取",
    "send deliver submit dispatch transmit forward 发送 提交",
    "start begin launch run execute trigger 启动 开始 运行 执行",
    "stop end halt terminate kill finish abort 停止 结束 终止",
    "cancel revoke withdraw undo 取消 撤销",
    "pause suspend hold 暂停",
    "resume continue restart 恢复 继续",
    "enable activate 启用 激活",
    "disable deactivate mute 禁用 停用",
    "open launch 打开",
    "close shut 关闭",
    "copy duplicate clone replicate 复制 克隆",
    "move transfer relocate shift 移动 转移",
    "rename retitle",
    "merge combine join concatenate unite 合并",
    "split divide partition separate 拆分",
    "sort order arrange rank 排序",
    "filter select choose pick 筛选 选择",
    "compare contrast difference diff versus 比较 对比",
    "convert transform translate change 转换",
    "check verify validate test confirm inspect 检查 验证 校验",
    "compute calculate determine evaluate 计算",
    "sum add total plus addition 求和 总和",
    "subtract minus difference",
    "multiply product times",
    "divide quotient",
    "average mean 平均",
    "maximum highest largest biggest top max 最大 最高",
    "minimum lowest smallest least min 最小 最低",
    "predict forecast estimate project 预测 估计",
    "analyze examine investigate study assess 分析",
    "explain describe clarify 解释 说明",
    "summarize summary brief digest abstract 总结 摘要",
    "recommend suggest advise advice suggestion recommendation 推荐 建议",
    "schedule plan arrange calendar agenda 安排 日程",
    "remind reminder alert alarm notify notification wake 提醒 闹钟 通知",
    "event meeting appointment conference call 会议 活动 约会",
    "task todo ticket item chore 任务 待办",
    "note memo remember jot 笔记 备忘",
    "issue bug ticket defect problem 问题 缺陷",
    "comment reply respond answer remark 评论 回复",
    "message chat text sms dm conversation 消息 短信 聊天",
    "email mail inbox gmail 邮件 邮箱",
    "contact address phone person people 联系 通讯",
    "phone call dial telephone mobile 电话",
    "user account profile member person customer client 用户 账户 客户",
    "person individual people human 人员",
    "employee staff worker colleague 员工",
    "login signin authenticate authentication logon 登录",
    "logout signout 登出",
    "password credential passcode secret 密码",
    "permission access right privilege authorize grant 权限 授权",
    "weather temperature climate forecast rain rainy sunny snow humidity wind 天气 气温 温度 预报",
    "location place city area where region 位置 地点 城市",
    "address street location 地址",
    "map route direction navigate path 地图 路线 导航",
    "distance far length 距离",
    "near nearby close around local 附近",
    "restaurant food dining dinner eat meal lunch dine 餐厅 餐馆 美食",
    "food meal dish eat burger pizza snack 食物",
    "order purchase buy checkout 订购 购买 下单",
    "book reserve reservation booking 预订 预约",
    "hotel accommodation lodging stay room house apartment rental 酒店 住宿",
    "house home apartment property residence real 房屋",
    "flight plane airline airplane fly airport 航班 机票",
    "train railway rail 火车",
    "bus coach 公交 巴士",
    "taxi cab ride uber 出租",
    "car vehicle automobile auto 汽车 车辆",
    "ticket pass admission",
    "trip travel journey vacation tour 旅行 旅游",
    "attraction sight sightseeing landmark tourist 景点",
    "movie film cinema theater theatre 电影",
    "video clip footage youtube 视频",
    "show series tv television episode 节目",
    "music song track album artist listen play 音乐 歌曲",
    "play listen hear watch stream 播放",
    "volume loud sound quiet 音量",
    "image picture photo photograph screenshot pic 图片 照片 图像",
    "audio sound voice speech 音频 语音",
    "draw paint sketch render 绘制",
    "chart graph plot diagram visualize 图表",
    "recipe cook cooking cookbook ingredient 食谱 菜谱",
    "drink beverage coffee tea 饮料",
    "doctor physician medical health clinic therapist psychologist psychiatrist 医生",
    "drug medicine medication 药物",
    "exercise workout fitness training 锻炼",
    "game match sport score 比赛",
    "news headline article story 新闻",
    "web internet online website site google 网页 网站",
    "page webpage document url link 页面",
    "document file doc paper 文档 文件",
    "folder directory path 目录",
    "spreadsheet excel sheet csv table 表格",
    "pdf document",
    "archive zip compress 压缩",
    "upload push send 上传",
    "download pull fetch 下载",
    "save store keep persist write record 保存 存储",
    "write compose draft author",
    "print display output show view 显示",
    "delete trash bin",
    "price cost fee rate charge expense pricing 价格 费用",
    "cheap inexpensive affordable budget price",
    "money cash fund payment amount 资金 金额",
    "pay payment charge bill 支付 付款",
    "invoice bill receipt 发票 账单",
    "refund reimburse return 退款",
    "bank account balance 银行 余额",
    "currency exchange money rate dollar euro 货币 汇率",
    "stock share equity market ticker 股票",
    "crypto cryptocurrency bitcoin coin token 加密",
    "invest investment portfolio fund 投资",
    "tax taxation duty",
    "loan mortgage credit 贷款",
    "interest rate",
    "trade deal buy sell transaction 交易",
    "transaction transfer payment 转账",
    "product item goods merchandise 产品 商品",
    "shop store shopping retailer market mall 商店 购物",
    "cart basket",
    "stock inventory supply availability available 库存",
    "ship shipment shipping delivery parcel package deliver track 物流 快递 包裹",
    "status state condition progress 状态",
    "complaint complain feedback 投诉",
    "review rating feedback opinion 评价",
    "company business firm organization corporation enterprise 公司 企业",
    "repository repo project codebase 仓库",
    "branch fork 分支",
    "commit revision changeset 提交",
    "pull merge pr request",
    "code source program script snippet 代码",
    "deploy release publish rollout 部署 发布",
    "build compile 构建",
    "test check unit spec 测试",
    "error exception failure fault crash bug 错误 异常",
    "log logs trace history audit 日志",
    "history past previous historical earlier record 历史",
    "metric statistic measure stats statistics 指标 统计",
    "monitor watch observe track 监控",
    "server host machine instance node 主机",
    "vm virtual machine instance",
    "container docker pod 容器",
    "cluster kubernetes k8s 集群",
    "database db sql table",
    "query sql select",
    "record row entry 记录",
    "column field attribute property 字段",
    "key token secret credential 密钥",
    "config configuration setting option preference parameter 配置 设置",
    "version release tag 版本",
    "install setup 安装",
    "domain dns hostname 域名",
    "ip address network",
    "network connection internet 网络",
    "vulnerability cve security weakness exploit 漏洞",
    "virus malware threat 病毒",
    "time clock hour now timezone current 时间",
    "date day calendar today 日期",
    "current now present latest today recent 当前 现在 最新",
    "tomorrow next upcoming future 明天",
    "week weekly",
    "month monthly",
    "year annual yearly",
    "language translation translate translator 语言 翻译",
    "word term vocabulary 单词",
    "define definition meaning dictionary 定义",
    "synonym thesaurus",
    "sentence text phrase string 文本",
    "math mathematics arithmetic 数学",
    "number digit integer numeric 数字",
    "random arbitrary 随机",
    "area surface",
    "triangle geometry shape",
    "equation formula solve 方程",
    "derivative differentiate slope gradient steep",
    "integral integrate",
    "factor divisor gcd",
    "factorial permutation",
    "probability chance likelihood odds 概率",
    "percent percentage ratio rate",
    "unit measurement convert 单位",
    "temperature celsius fahrenheit degree thermostat",
    "light lamp bulb brightness",
    "turn switch toggle set 开关",
    "set put assign configure 设置",
    "lock unlock secure",
    "device gadget appliance 设备",
    "camera photo webcam 相机",
    "school university college education 学校",
    "student pupil learner 学生",
    "course class lesson training 课程",
    "grade score mark result 成绩",
    "book novel author literature 图书",
    "library catalog",
    "job career position employment vacancy 工作 职位",
    "resume cv experience",
    "law legal court lawsuit case attorney lawyer 法律",
    "population census demographic people 人口",
    "country nation state 国家",
    "animal pet species 动物",
    "plant tree flower 植物",
    "gene dna genome protein",
    "chemical molecule compound element",
    "energy power electricity 能源",
    "speed velocity fast pace 速度",
    "weight mass heavy 重量",
    "size dimension big large 大小",
    "color colour hue shade 颜色",
    "name title label called 名称",
    "identifier id number 编号",
    "category type kind class genre 类别",
    "group team channel 群组 团队",
    "tag label topic 标签",
    "follow subscribe subscription 订阅 关注",
    "share publish post 分享",
    "like favorite star upvote 收藏",
    "post tweet publish status 帖子",
    "question ask faq answer 提问",
    "help support assist guide manual 帮助",
    "detail information info data details specifics 详情 信息",
    "report statement summary 报告",
    "export extract dump output 导出",
    "import ingest load 导入",
    "parse extract read decode 解析",
    "encode encrypt hash 编码 加密",
    "decode decrypt 解码",
    "wait sleep delay 等待",
    "timer countdown stopwatch 计时",
    "approve accept confirm 批准",
    "reject deny refuse decline 拒绝",
    "assign allocate delegate 分配",
    "invite add join 邀请",
    "rent lease hire",
    "service provider supplier vendor 服务",
    "insurance policy claim 保险",
    "party celebration event concert festival",
    "concert gig show event",
    "beauty salon hairdresser haircut stylist barber",
    "dentist dental tooth",
    "clean cleaner housekeeper maid cleaning",
    "patient medical health record",
];

/// The synonyms of each word, by stem.
static MATES: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut mates: HashMap<String, Vec<String>> = HashMap::new();
    for group in GROUPS {
        let stems: Vec<String> = group.split(' ').map(stem).collect();
        for own in &stems {
            let known = mates.entry(own.clone()).or_default();
            for other in &stems {
                if other != own && !known.contains(other) {
                    known.push(other.clone());
                }
            }
        }
    }
    mates
});

/// Every word that has synonyms, as it is spelled.
static SPELLED: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut words: Vec<&str> = GROUPS.iter().flat_map(|group| group.split(' ')).collect();
    words.sort_unstable();
    words.dedup();
    words
});

/// The stems of a word's synonyms.
pub(super) fn of(stem: &str) -> &'static [String] {
    MATES.get(stem).map_or(&[], Vec::as_slice)
}

/// Every word that has synonyms.
pub(super) fn all() -> &'static [&'static str] {
    &SPELLED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::search::words::{is_wide, tokens};

    #[test]
    fn groups_are_words_that_texts_are_cut_into() {
        for group in GROUPS {
            for word in group.split(' ') {
                let wide = word.chars().any(is_wide);
                assert!(!wide || word.chars().count() == 2, "{word}");
                assert!(wide || tokens(word) == [word], "{word} in {group}");
            }
        }
        assert!(of(&stem("film")).contains(&stem("movie")));
        assert!(of("天气").contains(&stem("weather")));
        assert!(of("unheard").is_empty());
    }
}
