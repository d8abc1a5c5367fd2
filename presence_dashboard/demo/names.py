"""Given and family names for the demo's directory.

A name in another script has its Latin form after ``=``. The email address is made from it, and staff can search by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Culture:
    """Names that belong together, and their order."""

    given: str  #: separated by commas
    family: str  #: separated by commas
    country: str  #: of the telephone numbers
    family_first: bool = False
    joint: str = " "  #: between the two names


CULTURES: Final = (
    Culture(
        "Olivia,Jack,Amelia,Harry,Isla,George,Poppy,Alfie,Freya,Theo",
        "Hartley,Whitcombe,Ashdown,Pemberton,Loxley,Braithwaite,Cartwright,O'Neill",
        "GB",
    ),
    Culture(
        "Madison,Tyler,Jasmine,Marcus,Brooklyn,Wyatt,Savannah,Darnell,Skylar,Mateo",
        "Freeman,Kowalczyk-Reed,Hollister,Washington,Delgado,Whitefeather,Brooks,McAllister",
        "US",
    ),
    Culture(
        "Aoife,Cillian,Saoirse,Oisín,Niamh,Pádraig,Caoimhe,Ruairí,Siobhán,Tadhg",
        "Ó Ceallaigh,Ní Bhriain,Mac Gearailt,Byrne,Gallagher,Kavanagh,Ó Dálaigh,Nolan",
        "IE",
    ),
    Culture(
        "Élodie,Mathis,Chloé,Théo,Inès,Gaël,Maëlle,Loïc,Zoé,Rémi",
        "Lefèvre,Dubois,Garnier,Roussel,Béranger,Chauvet,Le Goff,d'Aubigny",
        "FR",
    ),
    Culture(
        "Jürgen,Anneliese,Lukas,Käthe,Sören,Mathilda,Björn,Friederike,Moritz,Jördis",
        "Groß,Müller-Lüdenscheid,Schäfer,Weiß,Brandt,Köhler,von Arnim,Vogelsang",
        "DE",
    ),
    Culture(
        "Lucía,Álvaro,Ximena,Joaquín,Inés,Íñigo,Belén,Andrés,Sofía,Nicolás",
        "García Márquez,Muñoz,Echeverría,Ibáñez,Peña,Castaño Ruiz,Güell,Zubizarreta",
        "ES",
    ),
    Culture(
        "João,Beatriz,Thiago,Conceição,Luís,Inácia,Caetano,Letícia,Otávio,Açucena",
        "Gonçalves,da Conceição,Guimarães,Simões,Araújo,Falcão,dos Santos,Magalhães",
        "BR",
    ),
    Culture(
        "Giulia,Lorenzo,Chiara,Niccolò,Ginevra,Tommaso,Azzurra,Matteo,Ottavia,Dario",
        "Ferrari,Colombo,De Luca,Marchetti,D'Angelo,Santorò,Bianchi,Pellegrino",
        "IT",
    ),
    Culture(
        "Åsa,Håkon,Øystein,Sigrún,Astrid,Björk,Søren,Ingrid,Leif,Ægir",
        "Lindström,Sørensen,Þórsdóttir,Bjørnstad,Åkesson,Nygård,Højgaard,Virtanen",
        "SE",
    ),
    Culture(
        "Łukasz,Małgorzata,Stanisław,Zofia,Wojciech,Agnieszka,Bożena,Mieczysław,Kinga,Grzegorz",
        "Brzęczyszczykiewicz,Wiśniewska,Dąbrowski,Żak,Szczepańska,Wójcik,Gołąb,Kaźmierczak",
        "DE",
    ),
    Culture(
        "Ayşe,Çağlar,Işıl,Oğuz,Elif,Şükrü,Gülşen,Emre,İpek,Umut",
        "Yıldırım,Öztürk,Çelik,Aydın,Koçoğlu,Şahin,Güneş,Kılıç",
        "GB",
    ),
    Culture(
        "Ngozi,Chukwuemeka,Adébáyọ̀,Folasadé,Ifeanyi,Tèmítọ́pẹ́,Amara,Oluwaseun,Zainab,Obinna",
        "Okafor,Adéyẹmí,Nwosu,Balogun,Eze,Ọlátúnjí,Abubakar,Onwuachi",
        "GB",
    ),
    Culture(
        "Wanjiru,Kamau,Amina,Odhiambo,Nia,Barasa,Zawadi,Kipchoge,Makena,Juma",
        "Mwangi,Otieno,Kariuki,Achieng,Njoroge,Wekesa,Cherono,Mutua",
        "KE",
    ),
    Culture(
        "Thị Hương,Văn Đức,Minh Châu,Quốc Bảo,Ngọc Ánh,Đình Phong,Thùy Linh,Hữu Nghĩa,Bích Trâm,Tuấn Kiệt",
        "Nguyễn,Trần,Phạm,Đặng,Vũ,Lê,Bùi,Huỳnh",
        "VN",
        family_first=True,
    ),
    Culture(
        "さくら=Sakura,陽翔=Haruto,美咲=Misaki,蓮=Ren,結衣=Yui,大輔=Daisuke,葵=Aoi,健太=Kenta,千尋=Chihiro,翼=Tsubasa",
        "佐藤=Sato,高橋=Takahashi,田中=Tanaka,渡辺=Watanabe,小林=Kobayashi,清水=Shimizu,林=Hayashi,五十嵐=Igarashi",
        "JP",
        family_first=True,
    ),
    Culture(
        "伟=Wei,秀英=Xiuying,子涵=Zihan,明=Ming,雨桐=Yutong,建国=Jianguo,思远=Siyuan,丽=Li,浩然=Haoran,梓萱=Zixuan",
        "王=Wang,李=Li,张=Zhang,欧阳=Ouyang,陈=Chen,刘=Liu,赵=Zhao,司马=Sima",
        "US",
        family_first=True,
        joint="",
    ),
    Culture(
        "서연=Seoyeon,민준=Minjun,지우=Jiwoo,도윤=Doyun,하은=Haeun,예준=Yejun,수아=Sua,건우=Geonu,다은=Daeun,시우=Siwoo",
        "김=Kim,이=Lee,박=Park,최=Choi,정=Jung,강=Kang,남궁=Namgung,윤=Yoon",
        "KR",
        family_first=True,
        joint="",
    ),
    Culture(
        "फातिमा=Fatima,अर्जुन=Arjun,प्रिया=Priya,विक्रम=Vikram,आनंदी=Anandi,"
        "रोहन=Rohan,मीरा=Meera,कबीर=Kabir,लक्ष्मी=Lakshmi,इशान=Ishaan",
        "शर्मा=Sharma,पटेल=Patel,नायर=Nair,चट्टोपाध्याय=Chattopadhyay,सिंह=Singh,अय्यर=Iyer,कपूर=Kapoor,जोशी=Joshi",
        "IN",
    ),
    Culture(
        "ليلى=Layla,يوسف=Yusuf,مريم=Maryam,عمر=Omar,نور=Nour,خالد=Khalid,هدى=Huda,طارق=Tariq,سلمى=Salma,زياد=Ziad",
        "الحداد=Al-Haddad,منصور=Mansour,خوري=Khoury,المصري=Al-Masri,"
        "نصر الله=Nasrallah,درويش=Darwish,العلي=Al-Ali,حبيب=Habib",
        "FR",
    ),
    Culture(
        "Анастасія=Anastasiia,Дмитро=Dmytro,Олена=Olena,Богдан=Bohdan,Соломія=Solomiia,"
        "Тарас=Taras,Юлія=Yuliia,Андрій=Andrii,Ганна=Hanna,Микола=Mykola",
        "Шевченко=Shevchenko,Коваленко=Kovalenko,Бондар=Bondar,Мельник=Melnyk,"
        "Щербак=Shcherbak,Ткачук=Tkachuk,Гнатюк=Hnatiuk,Лисенко=Lysenko",
        "DE",
    ),
    Culture(
        "Ελένη=Eleni,Γιώργος=Giorgos,Αθηνά=Athina,Νίκος=Nikos,Δέσποινα=Despina,"
        "Στέλιος=Stelios,Ζωή=Zoi,Λευτέρης=Lefteris,Χρυσάνθη=Chrysanthi,Ηλίας=Ilias",
        "Παπαδόπουλος=Papadopoulos,Αγγελίδης=Angelidis,Κωνσταντίνου=Konstantinou,Βλάχος=Vlachos,"
        "Μακρής=Makris,Οικονόμου=Oikonomou,Ξενάκης=Xenakis,Θεοδώρου=Theodorou",
        "GB",
    ),
    Culture(
        "Aroha,Tāne,Moana,Wiremu,Anahera,Hōne,Kiri,Rāwiri,Mere,Te Ariki",
        "Ngata,Parata,Te Kanawa,Tūhoe,Māhuta,Wharerau,Hēnare,Rangihuna",
        "AU",
    ),
)
