"""What people write to say thanks, or that they have read something: whole phrases, by language.

Patterns are of text as `acknowledgements` prepares it: in lower case, without accents, apostrophes
and punctuation. They are whole phrases, not words, because the same words may ask something:
"passt so" confirms, "passt das so" asks. None holds a negation, a condition or a request, and none
repeats without a bound. A phrase of THANKS is enough by itself, one of BESIDE only together with
such a phrase.
"""

from collections.abc import Mapping

THANKS: Mapping[str, tuple[str, ...]] = {
    "en": (
        r"(?:many |much |big |lots of )?(?:thanks|thank (?:you|u)|thankyou|thx|tnx|ty|tysm"
        r"|cheers)(?: again| all| both| guys| team| so much| very much| a lot| a bunch| a ton"
        r"| lots| indeed| loads){0,2}(?: for (?:everything|(?:looking|checking|explaining"
        r"|clarifying|investigating|helping)(?: into)?(?: it| this| that| me)?"
        r"|(?:(?:all )?(?:the|your|this|that)|such an?)(?: very)?(?: (?:great|good|nice|quick"
        r"|fast|detailed|thorough|clear|helpful|excellent|awesome))? (?:analysis|explanation"
        r"|help|info|information|hints?|tips?|pointers?|catch|find|work|job|details?|effort"
        r"|answer|reply|response|summary|note|support|insights?|clarification|feedback"
        r"|suggestions?|fix|links?|investigation|review|look|report|update)))?",
        r"(?:much |really )?appreciated|(?:i )?(?:really )?appreciate (?:it|that|this|the help)",
        r"(?:oh |ah )?(?:ok|okay|okey|k|kk)|alright|all (?:right|good|clear)|(?:duly )?noted"
        r"|understood|acknowledged|ack|agreed|got it(?: now)?|gotcha|roger(?: that)?|copy that",
        r"(?:that |this |it )?makes (?:a lot of |total |perfect |complete "
        r"|much more )?sense(?: now| to me)?|(?:oh |ah |now )?i (?:see|understand"
        r"|get it)(?: now)?|fair (?:enough|point)|sounds (?:good|great|right"
        r"|reasonable)(?: to me)?|good to know",
        r"(?:very |really )?(?:good|great|nice|awesome|excellent|amazing|fantastic) (?:catch"
        r"|find|point|job|work|analysis|explanation|spot|one|stuff)|well (?:done|spotted)"
        r"|spot on",
        r"lgtm|looks good(?: to me)?|perfect|awesome|excellent|great|brilliant|wonderful"
        r"|fantastic|amazing|neat|nice|cool|wow|super",
        r"(?:thats|that is|this is|its|that was|this was|it was) (?:it|great|perfect|awesome"
        r"|excellent|exactly it|(?:very |really |super |so |extremely )?(?:helpful|useful"
        r"|clear))",
        r"(?:very |really |super )?(?:helpful|useful)|(?:that |this |it )(?:helps"
        r"|helped)(?: me)?(?: a lot| very much)?",
        r"(?:that |this |it )?(?:worked|works now|works again|fixed it|did it|solved it"
        r"|did the trick)|(?:all )?(?:fixed|solved|resolved|sorted)(?: now)?|problem solved",
    ),
    "de": (
        r"(?:(?:vielen|herzlichen|besten|lieben|tausend) dank|danke(?:scho?e?n|sehr)?"
        r"|dankscho?e?n|merci)(?: dir| euch| ihnen| vielmals| schoe?n| sehr| nochmals?"
        r"| auch){0,2}(?: fue?r (?:alles|(?:die|den|das|deine|deinen|dein|eure|euren|ihre"
        r"|ihren)(?: (?:schnelle|gute|super|tolle|ausfue?hrliche|klare|genaue"
        r"|hilfreiche)[nr]?)? (?:analyse|erklae?rung|hilfe|infos?|information(?:en)?|hinweise?"
        r"|tipps?|antwort|auskunft|rue?ckmeldung|arbeit|mue?he|zusammenfassung|unterstue?tzung"
        r"|untersuchung|details|link)))?",
        r"(?:das )?passt(?: so| gut| perfekt| alles| jetzt| schon| fue?r mich)?|alles (?:klar"
        r"|gut|ok)|klar|in ordnung|geht klar|notiert|zur kenntnis genommen|gut zu wissen",
        r"(?:ah |ok )?verstanden|(?:ah |ok )?(?:ich )?verstehe|(?:ich )?habe? (?:ich |es "
        r"|das )?verstanden|(?:ich )?habs verstanden|ach ?so",
        r"(?:das )?(?:leuchtet(?: mir)? ein|macht sinn|ergibt sinn|klingt (?:gut|logisch"
        r"|plausibel))|(?:das )?stimmt",
        r"perfekt|super|prima|klasse|spitze|top|wunderbar|hervorragend|ausgezeichnet|sehr (?:gut"
        r"|schoe?n|hilfreich)|hilfreich|das (?:war|ist) (?:sehr |wirklich |echt "
        r"|super )?hilfreich",
        r"(?:das )?hilft(?: mir)?(?: sehr)?(?: weiter)?"
        r"|(?:das )?hat (?:mir )?(?:sehr )?(?:weiter ?)?geholfen",
        r"(?:sehr )?(?:gute|tolle|super|saubere|klasse) (?:arbeit|analyse|erklae?rung)"
        r"|gut (?:gemacht|gefunden|erkannt|gesehen)",
        r"(?:das |es |jetzt )?(?:funktioniert|geht|lae?uft) (?:jetzt|wieder|nun)(?: wieder)?"
        r"|(?:ist )?(?:behoben|erledigt|gefixt|gelost|geloest|repariert)|das wars|das war es",
    ),
    "fr": (
        r"(?:un (?:grand|gros|tout grand) |mille )?mercis?(?: beaucoup| bien| infiniment"
        r"| mille fois| encore| a toi| a vous| a tous){0,2}(?: pour (?:tout|(?:l|la |le |les "
        r"|ton |ta |tes |votre |vos |cette |cet |ce |ces )(?:bonne |super |excellente "
        r"|rapide )?(?:analyse|aide|infos?|informations?|explications?|precisions?|reponse"
        r"|retour|details|lien|travail|diagnostic|coup de main|conseils?|astuce|resume"
        r"|clarification)(?: rapide| detaillee?s?| claire?s?)?)| de (?:ton|votre) aide)?",
        r"daccord|ok pour moi|(?:cest )?(?:note|compris|regle|corrige|resolu|repare)"
        r"|bien (?:compris|recu|note)|cest (?:bon|clair|parfait|super|ca|tout bon|plus clair"
        r"|logique|limpide|top)(?: pour moi| maintenant)?",
        r"jai compris|je (?:comprends|vois)(?: mieux| maintenant)?|(?:ca |cela )a du sens"
        r"|tres (?:bien|clair|utile)|(?:tres )?bonne analyse|ca (?:marche|roule|me va|fonctionne"
        r"|aide)(?: beaucoup| maintenant| bien)?",
        r"parfait|super|genial|excellent|impeccable|nickel|top|bien (?:vu|joue)|(?:beau|bon"
        r"|super|excellent) travail|probleme resolu",
    ),
    "es": (
        r"(?:muchas |muchisimas |mil )?gracias(?: de nuevo| otra vez| a todos"
        r"| a ti){0,2}(?: por (?:todo|(?:la|el|los|las|tu|su|tus|esta|este)(?: (?:buena|buen"
        r"|rapida|gran|excelente))? (?:analisis|ayuda|info|informacion|explicacion|respuesta"
        r"|aclaracion|aclaraciones|trabajo|datos?|consejo|pista|detalles?|resumen|apoyo|aviso"
        r"|diagnostico|enlace)(?: tan)?(?: rapida| rapido| detallada| detallado| clara)?"
        r"|(?:explicarlo|aclararlo|avisar|ayudar|mirarlo|revisarlo)))?",
        r"(?:te|se) lo agradezco|se agradece|muy (?:amable|agradecid[oa])",
        r"de acuerdo|vale|entendido|(?:ya )?(?:lo )?entiendo|ya veo|comprendido|(?:todo |queda "
        r"|esta )?claro|anotado|tomo nota|(?:eso )?tiene (?:todo el |mucho )?sentido",
        r"perfecto|genial|estupendo|excelente|fantastico|buenisimo|muy (?:bien|bueno|util|claro)"
        r"|(?:eso )?(?:me )?(?:ayuda|ayudo|sirve) mucho",
        r"(?:buen|gran|excelente) (?:trabajo|analisis)|bien (?:visto|hecho)|buena observacion",
        r"(?:ya )?funciona (?:ahora|ya|bien)|ya funciona|(?:ya esta )?(?:arreglado|corregido"
        r"|resuelto|solucionado|listo)",
    ),
    "pt": (
        r"(?:muito |muitissimo |mto )?(?:obrigad[oa]|obrigadao|obg|brigad[oa]|valeu"
        r"|agradecid[oa])(?: mesmo| demais| novamente| de novo| a todos){0,2}(?: (?:pela|pelo"
        r"|pelos|pelas|por)(?: (?:sua|tua|seu|teu|esta|essa|este|esse|toda a))?(?: (?:rapida"
        r"|otima|excelente|boa))? (?:analise|ajuda|info|informacao|informacoes|explicacao"
        r"|explicacoes|resposta|esclarecimentos?|dicas?|trabalho|detalhes?|resumo|apoio|retorno"
        r"|aviso|diagnostico|tudo|link)(?: rapida| detalhada| clara)?)?",
        r"entendi|entendido|compreendido|percebi|percebido|(?:ta |esta )?certo|combinado|beleza"
        r"|blz|tudo (?:certo|claro)|de acordo|anotado|(?:isso )?faz (?:todo o |todo "
        r"|muito )?sentido",
        r"perfeito|otimo|excelente|fantastico|maravilha|legal|muito (?:bom|bem|util|claro)"
        r"|(?:isso )?ajud(?:a|ou) muito|(?:bom|otimo|excelente) trabalho|(?:boa|otima) analise"
        r"|bem visto|era isso(?: mesmo)?",
        r"(?:ja |agora )(?:funciona|funcionou)|(?:funciona|funcionou) agora"
        r"|(?:ja esta )?(?:resolvido|corrigido|arrumado|consertado)",
    ),
    "it": (
        r"(?:molte |tante |mille )?grazie(?: mille| tante| infinite| di nuovo| ancora| a tutti"
        r"| a te| davvero){0,2}(?: (?:per tutto|(?:per (?:l|la |il |le |i |gli |la tua |il tuo "
        r"|questa |questo )|dell|della |del |delle )(?:ottima |ottimo |rapida )?(?:analisi|aiuto"
        r"|info|informazion[ei]|spiegazion[ei]|risposta|chiariment[oi]|lavoro|dritta"
        r"|suggerimento|consiglio|dettagli|riassunto|supporto|segnalazione|indicazion[ei])))?"
        r"|(?:ti|vi|la) ringrazio",
        r"va bene|tutto (?:ok|chiaro|bene|a posto)|daccordo|(?:ho )?capito|(?:ora )?capisco"
        r"|(?:e )?(?:chiaro|chiarissimo)|ricevuto|ha (?:perfettamente |molto )?senso",
        r"perfetto|ottimo|eccellente|fantastico|benissimo|molto (?:bene|utile|chiaro)|ben fatto"
        r"|(?:bel|ottimo|buon) lavoro|(?:bella|ottima) analisi|bravo|bravissimo"
        r"|e stato (?:molto )?utile",
        r"(?:ora |adesso )funziona|funziona (?:ora|adesso)|risolto|sistemato|corretto",
    ),
    "nl": (
        r"(?:(?:hartelijk|heel erg|heel|erg|ontzettend|super|nogmaals) )?(?:bedankt"
        r"|dank ?je(?: ?wel)?|dank ?u(?: ?wel)?|dank|dankjewel)(?: allemaal| hoor| nogmaals"
        r"| wel){0,2}(?: voor (?:alles|(?:de|het|je|jouw|uw|deze)(?: (?:goede|snelle|duidelijke"
        r"|heldere|mooie|uitgebreide))? (?:analyse|uitleg|hulp|info|informatie|antwoord"
        r"|toelichting|tips?|hint|werk|moeite|details|samenvatting|reactie|verduidelijking"
        r"|ondersteuning)))?",
        r"(?:(?:dat|het) is )?(?:duidelijk|helder|logisch)|begrepen|(?:ik )?(?:snap"
        r"|begrijp) (?:ik|het)|oke|akkoord|in orde|komt (?:goed|in orde)|(?:dat |het )?klopt"
        r"|genoteerd|goed om te weten",
        r"prima|top|super|perfect|geweldig|uitstekend|mooi|fijn|goed (?:gevonden|gezien|werk"
        r"|gedaan)|mooi gevonden|goede (?:vondst|analyse)|(?:heel |erg )?(?:handig|nuttig)"
        r"|dat (?:helpt|hielp)(?: enorm| erg)?",
        r"(?:het |dat )?werkt (?:nu|weer)(?: weer)?|(?:is )?(?:opgelost|gefixt|verholpen)",
    ),
    "pl": (
        r"(?:(?:bardzo|wielkie|serdecznie|slicznie|pieknie) )?(?:dziekuje|dziekujemy|dzieki"
        r"|dzieks)(?: bardzo| wielkie| serdeczne| raz jeszcze| jeszcze raz| ci"
        r"| wam){0,2}(?: za (?:wszystko|(?:szybka |dobra |swietna |szczegolowa |szybkie "
        r"|dobre )?(?:analize|pomoc|wyjasnieni[ae]|info|informacje|odpowiedz|podpowiedz"
        r"|wskazowk[ei]|szczegoly|prace|podsumowanie|wsparcie|sprawdzenie|diagnoze)))?",
        r"rozumiem|zrozumial[ea]m|zrozumiale|zrozumiano|(?:wszystko )?jasne|okej|w porzadku"
        r"|dobra|dobrze|spoko|przyjal[ea]m|przyjeto|zanotowane|zgadza sie|zgoda"
        r"|(?:to )?ma(?: to)? sens",
        r"super|swietnie|swietne|doskonale|idealnie|znakomicie|(?:swietna|dobra) (?:robota"
        r"|analiza)|(?:bardzo )?pomocne|(?:to )?(?:bardzo )?pomoglo",
        r"(?:juz|teraz) dziala|dziala (?:juz|teraz)|naprawione|poprawione|zrobione|rozwiazane",
    ),
    "ru": (
        r"(?:большое |огромное )?(?:спасибо|спс|пасиб|благодарю)(?: большое| огромное| вам| тебе"
        r"| всем| еще раз){0,2}(?: за (?:все|(?:быстрый |подробный |отличный |хороший "
        r"|быструю )?(?:анализ|помощь|объяснение|разъяснение|разбор|ответ|подсказку|информацию"
        r"|пояснение|подробности|детали|работу|диагностику)))?",
        r"(?:все |теперь )?(?:понятно|ясно)|понял[а]?|ок|окей|хорошо|ладно|принято|принял[а]?"
        r"|соглас(?:ен|на)|учту|логично|(?:это )?имеет смысл|все верно",
        r"отлично|супер|класс|прекрасно|замечательно|великолепно|идеально|здорово|круто"
        r"|(?:хорошая|отличная) работа|(?:хороший|отличный) анализ|(?:очень )?полезно"
        r"|(?:это )?(?:очень )?помогло",
        r"(?:теперь |уже )?(?:заработало|все работает)|(?:теперь|уже) работает|исправлено"
        r"|исправил[а]?|починил[а]?|решено",
    ),
    "zh": (
        r"(?:非常|十分|多|很|太)?(?:谢谢|感谢|謝謝|感謝|多谢|多謝|谢了|謝了|谢啦)(?:你们|你|您"
        r"|大家|啦|了|哦)?(?:的)?(?:详细|詳細|及时|快速)?(?:分析|帮助|幫助|解释|解釋|回复|回覆"
        r"|说明|說明|提示|信息|指点|建议|解答|支持)?(?:了|啦)?",
        r"好的?|好滴|明白了?|了解了?|懂了|知道了|清楚了|收到了?|没问题|沒問題|原来如此|原來如此"
        r"|(?:很)?有道理",
        r"很好|太好了|太棒了|真棒|不错|不錯|完美|赞|(?:很)?有(?:帮助|用)|(?:做|干)得(?:好|漂亮)"
        r"|分析得很好",
        r"搞定了?|(?:都)?(?:解决|修复|修好|解決)了|已经?(?:解决|修复|修好|解決)了?",
    ),
    "ja": (
        r"(?:(?:詳しい|丁寧な|迅速な|素早い)?ご?(?:分析|説明|解説|回答|対応|連絡|指摘|調査|確認"
        r"|助言|情報)を?)?(?:どうも|本当に|誠に)?(?:ありがとう|有難う|有り難う)(?:ございます"
        r"|ございました|ね)?",
        r"(?:感謝(?:です|します|いたします)|(?:大変|とても)?助かり(?:ます|ました)|助かった)",
        r"了解(?:です|しました|致しました|いたしました)?|承知(?:です|しました|致しました"
        r"|いたしました)|(?:よく)?(?:わかり|分かり)ました|(?:わ|分)かった|理解(?:しました"
        r"|できました)|納得(?:です|しました)?|なるほど(?:です)?|オッケー(?:です)?",
        r"完璧(?:です)?|素晴らしい(?:です)?|さすが(?:です)?|(?:い|良)いですね|(?:参考になり"
        r"|役に立ち)ました|お疲れ様(?:です|でした)",
        r"(?:解決|修正)しました|(?:解決|修正)済み(?:です)?|直りました|直った|動きました"
        r"|確認しました",
    ),
}
"""What is an acknowledgement by itself, by language."""

BESIDE: tuple[str, ...] = (
    r"bot|sandpiper|hi|hello|hey|oh|ah|yes|yep|yeah|sure|indeed|exactly|will do|on it|no worries"
    r"|(?:that )?good|my (?:bad|fault|mistake)|oops|now|then|you (?:rock|are the best)"
    r"|youre the best|thats all|(?:all )?done|works for me|have a (?:nice|good|great) (?:day"
    r"|weekend|evening|one)|(?:ill|i will) (?:fix|do|try|handle|update|correct) (?:it|that"
    r"|this)(?: now| today| tomorrow| later| soon)?|(?:ive |i have |i )(?:just )?fixed (?:it"
    r"|that)",
    r"ja|jep|jo|genau|toll|gut|hallo|mach(?:e)? ich|wird gemacht|(?:war )?mein fehler|weiter so"
    r"|(?:ich )?kue?mmere mich(?: darum)?|(?:dann )?(?:ich )?(?:fixe|behebe"
    r"|korrigiere)(?: ich)? (?:das|es)(?: gleich| heute| morgen| spae?ter)?|schoe?nen (?:tag"
    r"|abend|feierabend)(?: noch)?|schoe?nes wochenende|(?:viele|liebe|beste) grue?sse|lg|vg",
    r"oui|bonjour|salut|bonne (?:journee|soiree)|bon week ?end|ma faute|mon erreur"
    r"|au temps pour moi|je (?:men occupe|corrige (?:ca|cela))(?: tout de suite| demain"
    r"| aujourdhui)?|en effet|effectivement|cordialement",
    r"hola|saludos|un saludo|buen (?:dia|fin de semana)|(?:ya )?lo (?:arreglo|corrijo)(?: ahora"
    r"| hoy| manana| luego)?|(?:error|culpa) mi[oa]|mi error",
    r"ola|oi|sim|bom (?:dia|fim de semana)|boa (?:tarde|noite)|vou (?:corrigir|arrumar"
    r"|consertar)(?: isso)?(?: hoje| amanha| agora)?|(?:erro meu|culpa minha)|abracos?|abs",
    r"ciao|salve|buona (?:giornata|serata)|buon (?:weekend|fine settimana)|lo (?:sistemo"
    r"|correggo)(?: subito| oggi| domani| ora)?|ci penso io|errore mio|colpa mia"
    r"|(?:cordiali )?saluti|esatto",
    r"hoi|fijne (?:dag|avond)|fijn weekend|doe ik|ga ik doen|ik (?:fix|los) (?:het"
    r"|dat)(?: op)?(?: vandaag| morgen)?|mijn fout|foutje|groet(?:en|jes)?",
    r"czesc|hej|milego (?:dnia|weekendu)|pozdrawiam|(?:zaraz |juz )?(?:poprawie"
    r"|naprawie)(?: to)?(?: dzis| dzisiaj| jutro| zaraz)?|moj blad|moja wina",
    r"бот|привет|да|ага|хорошего дня|хороших выходных|всего доброго|моя (?:ошибка|вина)"
    r"|(?:сейчас |сегодня |завтра )?(?:исправлю|починю|поправлю)(?: это)?(?: сегодня| завтра"
    r"| сейчас)?",
    r"我(?:来|去|会|马上|现在)?(?:修复|修改|处理|修|改)(?:一下)?|辛苦了|你好|您好|我的(?:错"
    r"|问题)|机器人",
    r"はい|修正します|直します|対応します|こちらで(?:修正|対応)します|ボット",
)
"""What may stand beside it: whom one thanks, greetings, and what one is going to do oneself."""
